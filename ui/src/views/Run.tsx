// A run in full: its graph, who worked when, and its events.

import { useMemo } from 'react';
import { Head, type WithMenu } from '../parts/Head';
import { at, go, usePlace, withQuery } from '../router';
import { useWorld } from '../store/hooks';
import { Graph } from './Graph';
import { Progress } from './Progress';
import { TaskTable } from './Tasks';
import { flat, Timeline } from './Timeline';
import { useRun } from './useRun';

const TABS = ['graph', 'timeline', 'tasks'] as const;

export default function RunView({ id, onMenu }: { id: string } & WithMenu) {
  const place = usePlace();
  const { run, fault } = useRun(id);
  const { tasks } = useWorld();
  const own = useMemo(() => [...tasks.values()].filter((task) => task.run === id), [tasks, id]);
  const tab = place.query.get('tab') ?? 'graph';
  const fold = place.query.get('fold') === 'done';
  const attempts = run ? Math.max(1, ...flat(run.tasks).map((task) => task.attempt)) : 1;
  const attempt = Number(place.query.get('attempt')) || undefined;
  const to = (changes: Record<string, string | undefined>) => go(withQuery(place, changes), 'replace');
  return (
    <>
      <Head title={run?.title || id} note={run ? run.status.replace('_', ' ') : fault} onMenu={onMenu}>
        <span className="push" />
        <Progress tasks={own} />
        <a className="button" href={`${at('stream')}?run=${encodeURIComponent(id)}`}>Events</a>
      </Head>
      <div className="bar">
        <div className="tabs" role="group" aria-label="Picture">
          {TABS.map((name) => (
            <button key={name} type="button" className="tab" {...(tab === name ? { 'aria-current': true } : {})} onClick={() => to({ tab: name })}>{name[0]?.toUpperCase() + name.slice(1)}</button>
          ))}
        </div>
        <span className="push" />
        {tab === 'graph' && <button type="button" className="chip" aria-pressed={fold} onClick={() => to({ fold: fold ? undefined : 'done' })}>Fold done</button>}
        {tab === 'timeline' && attempts > 1 && (
          <select className="field" aria-label="Attempt" value={attempt ?? ''} onChange={(event) => to({ attempt: event.target.value || undefined })}>
            <option value="">All attempts</option>
            {Array.from({ length: attempts }, (_, index) => <option key={index} value={index + 1}>Attempt {index + 1}</option>)}
          </select>
        )}
      </div>
      <div className="scroll page">
        {tab === 'graph' && <Graph tasks={own} foldDone={fold} />}
        {tab === 'timeline' && run && <Timeline tasks={run.tasks} attempt={attempt} />}
        {tab === 'tasks' && <TaskTable tasks={own} />}
      </div>
      <div />
    </>
  );
}
