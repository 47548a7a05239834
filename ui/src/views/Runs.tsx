// What was and is worked on: each run with how far it is.

import { useMemo } from 'react';
import type { Wire } from '../api/client';
import { Head, type WithMenu } from '../parts/Head';
import { Age } from '../parts/time';
import { at, go } from '../router';
import { useCursor } from '../shell/rows';
import { useAsked, useNewest } from '../store/asked';
import { useWorld } from '../store/hooks';
import type { Task } from '../store/world';
import { Progress } from './Progress';

export default function RunsView({ onMenu }: WithMenu) {
  const { tasks } = useWorld();
  const byRun = useMemo(() => {
    const found = new Map<string, Task[]>();
    for (const task of tasks.values()) found.set(task.run, [...(found.get(task.run) ?? []), task]);
    return found;
  }, [tasks]);
  const newest = useNewest((event) => event.kind.startsWith('run.') || event.kind.startsWith('task.'));
  const { value, fault } = useAsked<Wire['Runs']>('/clutch/v0/runs?limit=200', newest);
  const runs = value?.runs ?? (fault === undefined ? undefined : []);
  const [chosen] = useCursor(runs?.length ?? 0, (deed, index) => {
    const run = runs?.[index];
    if (deed === 'open' && run) go(at('runs', run.run_id));
    return deed === 'open';
  });
  return (
    <>
      <Head title="Runs" note={runs ? `${runs.length}` : ''} onMenu={onMenu}><a className="button push" href={at('start')}>Start a workflow file</a></Head>
      <div className="bar" />
      <div className="scroll page">
        {runs?.length === 0 && <p className="empty">No run has tasks yet.</p>}
        {runs && runs.length > 0 && (
          <table className="table">
            <thead><tr><th>Run</th><th className="wide">Status</th><th>Progress</th><th className="num">Changed</th></tr></thead>
            <tbody>
              {runs.map((run, index) => (
                <tr key={run.run_id} className={index === chosen ? 'chosen' : ''}>
                  <td><a className="name" href={at('runs', run.run_id)}>{run.title || run.run_id}</a> <span className="mono quiet wide">{run.run_id}</span></td>
                  <td className="wide">{run.status.replace('_', ' ')}</td>
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
