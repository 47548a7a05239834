import { useEffect, useMemo, useState } from 'react';
import { get, type Wire } from '../api/client';
import { Head, type WithMenu } from '../parts/Head';
import { Age } from '../parts/time';
import { at } from '../router';
import { useWorld } from '../store/hooks';
import type { Task } from '../store/world';
import { Progress } from './Progress';

export default function RunsView({ onMenu }: WithMenu) {
  const { tasks } = useWorld();
  const [runs, setRuns] = useState<Wire['RunInfo'][]>();
  const byRun = useMemo(() => {
    const found = new Map<string, Task[]>();
    for (const task of tasks.values()) found.set(task.run, [...(found.get(task.run) ?? []), task]);
    return found;
  }, [tasks]);
  const known = [...byRun.keys()].join(' ');
  useEffect(() => {
    get<Wire['Runs']>('/clutch/v0/runs?limit=200').then((found) => setRuns(found.runs)).catch(() => setRuns([]));
  }, [known]);
  return (
    <>
      <Head title="Runs" note={runs ? `${runs.length}` : ''} onMenu={onMenu} />
      <div className="bar" />
      <div className="scroll page">
        {runs?.length === 0 && <p className="empty">No run has tasks yet.</p>}
        {runs && runs.length > 0 && (
          <table className="table">
            <thead><tr><th>Run</th><th>Status</th><th>Progress</th><th className="num">Changed</th></tr></thead>
            <tbody>
              {runs.map((run) => (
                <tr key={run.run_id}>
                  <td><a className="name" href={at('runs', run.run_id)}>{run.title || run.run_id}</a> <span className="mono quiet">{run.run_id}</span></td>
                  <td>{run.status.replace('_', ' ')}</td>
                  <td><span className="state"><Progress tasks={byRun.get(run.run_id) ?? []} /></span></td>
                  <td className="num"><Age since={Date.parse(run.updated_at)} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
      <div />
    </>
  );
}
