// The run beside its channel: graph, timeline, why somebody was chosen, and how far the task in hand is.

import { useMemo } from 'react';
import { Glyph } from '../parts/Glyph';
import { Icon } from '../parts/Icon';
import { lasted, useMoment } from '../parts/time';
import { at, go, usePlace, withQuery } from '../router';
import { PanelEdge } from '../shell/PanelEdge';
import { useTaskHistory } from '../store/history';
import { useNames, useWorld } from '../store/hooks';
import { useStore } from '../store/store';
import { hasEnded, type Task } from '../store/world';
import { Checkpoints } from './Checkpoints';
import { Graph } from './Graph';
import { Timeline } from './Timeline';
import { useRun } from './useRun';
import { Why } from './Why';

export default function RunPanel({ run: id }: { run: string }) {
  const { value: run } = useRun(id);
  const { tasks } = useWorld();
  const now = useMoment();
  const place = usePlace();
  const names = useNames();
  const routings = useStore((state) => state.routings);
  const own = useMemo(() => [...tasks.values()].filter((task) => task.run === id), [tasks, id]);
  const open = own.filter((task) => !hasEnded(task));
  // Where all is done there is nothing to fold it for.
  const fold = open.length > 0;
  const focus = telling(open) ?? telling(own);
  const routing = [...own].reverse().map((task) => routings.get(task.id)).find((event) => event !== undefined);
  const from = own.reduce((least, task) => Math.min(least, task.createdAt), now);
  const upto = fold ? now : own.reduce((last, task) => Math.max(last, task.since), from);
  return (
    <aside className="inspector" aria-label="Run">
      <PanelEdge />
      <header className="head">
        <Glyph shape={open.length > 0 ? 'working' : 'done'} label={open.length > 0 ? 'open' : 'done'} />
        <h1 className="cut">{run?.title || id}</h1>
        <span className="mono quiet cut">{id}</span>
        <span className="push num quiet">{lasted(upto - from)}</span>
        <button type="button" aria-label="Close" onClick={() => go(withQuery(place, { panel: 'off' }), 'replace')}><Icon name="close" /></button>
      </header>
      <div className="inspector-body">
        <section className="section">
          <h3>Task graph <span>{open.length} open of {own.length}</span><a href={at('runs', id)}>Open</a></h3>
          <Graph tasks={own} foldDone={fold} compact chosen={focus?.id} />
        </section>
        <section className="section">
          <h3>Timeline <span>idle time is folded</span><a href={at('runs', id)}>Open</a></h3>
          {run && <Timeline tasks={run.tasks} />}
        </section>
        {routing && <section className="section"><Why event={routing} title={names.task(routing.task ?? '')} /></section>}
        {focus && <section className="section"><Saved task={focus} /></section>}
      </div>
    </aside>
  );
}

function Saved({ task }: { task: Task }) {
  return <Checkpoints task={task} history={useTaskHistory(task.id)} />;
}

/** The task that is worth a look: what is stuck, else what goes on. */
function telling(tasks: readonly Task[]): Task | undefined {
  const rank = (task: Task) => ['paused', 'failed', 'review', 'in_progress', 'planning'].indexOf(task.state);
  return [...tasks].filter((task) => rank(task) >= 0).sort((a, b) => rank(a) - rank(b) || a.createdAt - b.createdAt)[0];
}
