// The run beside its channel: graph, timeline, why somebody was chosen, and how far the task in hand is.

import { useMemo } from 'react';
import { Glyph, taskShape } from '../parts/Glyph';
import { clock, lasted, useNow } from '../parts/time';
import { at } from '../router';
import { useNames, useWorld } from '../store/hooks';
import { text } from '../store/event';
import { useStore } from '../store/store';
import type { Task } from '../store/world';
import { Graph } from './Graph';
import { Timeline } from './Timeline';
import { useRun } from './useRun';
import { Why } from './Why';

export default function RunPanel({ run: id }: { run: string }) {
  const { run } = useRun(id);
  const { tasks } = useWorld();
  const now = useNow();
  const names = useNames();
  const routings = useStore((state) => state.routings);
  const own = useMemo(() => [...tasks.values()].filter((task) => task.run === id), [tasks, id]);
  const open = own.filter((task) => task.state !== 'completed' && task.state !== 'skipped' && task.state !== 'cancelled');
  const focus = telling(open) ?? telling(own);
  const routing = [...own].reverse().map((task) => routings.get(task.id)).find((event) => event !== undefined);
  const from = own.reduce((least, task) => Math.min(least, task.createdAt), now);
  return (
    <aside className="inspector" aria-label="Run">
      <header className="head">
        <Glyph shape={open.length > 0 ? 'working' : 'done'} label={open.length > 0 ? 'open' : 'done'} />
        <h1 className="cut">{run?.title || id}</h1>
        <span className="mono quiet cut">{id}</span>
        <span className="push num quiet">{lasted(now - from)}</span>
      </header>
      <section className="section">
        <h3>Task graph <span>{open.length} open of {own.length}</span><a href={at('runs', id)}>Open</a></h3>
        <Graph tasks={own} foldDone compact chosen={focus?.id} />
      </section>
      <section className="section">
        <h3>Timeline <span>idle time is folded</span><a href={`${at('runs', id)}?tab=timeline`}>Open</a></h3>
        {run && <Timeline tasks={run.tasks} />}
      </section>
      {routing && <section className="section"><Why event={routing} title={names.task(routing.task ?? '')} /></section>}
      {focus && <section className="section"><Checkpoints task={focus} /></section>}
    </aside>
  );
}

/** The task that is worth a look: what is stuck, else what goes on. */
function telling(tasks: readonly Task[]): Task | undefined {
  const rank = (task: Task) => ['paused', 'failed', 'review', 'in_progress', 'planning'].indexOf(task.state);
  return [...tasks].filter((task) => rank(task) >= 0).sort((a, b) => rank(a) - rank(b) || a.createdAt - b.createdAt)[0];
}

export function Checkpoints({ task }: { task: Task }) {
  const events = useStore((state) => state.events);
  const own = useMemo(() => events.filter((event) => event.kind === 'checkpoint.added' && text(event.payload, 'task') === task.id), [events, task.id]);
  return (
    <>
      <h3>{task.title} <span>{own.length} checkpoint{own.length === 1 ? '' : 's'}</span><a href={at('tasks', task.id)}>Open</a></h3>
      <ol className="checkpoints">
        {own.slice(-8).map((event) => (
          <li key={event.seq}><Glyph shape={text(event.payload, 'kind') === 'error' ? 'failed' : 'done'} /><span className="cut">{text(event.payload, 'summary')}</span><time>{clock(event.at)}</time></li>
        ))}
        <li><Glyph shape={taskShape(task)} /><span className="cut">{task.reason ?? task.state.replace('_', ' ')}</span><time>{clock(task.since)}</time></li>
      </ol>
    </>
  );
}
