// A run in full: its graph over the time line, both with the same task chosen, which is told about beside them.

import { useMemo } from 'react';
import { Head, type WithMenu } from '../parts/Head';
import { Icon } from '../parts/Icon';
import { Offers } from '../parts/Offers';
import { TaskState } from '../parts/State';
import { at, go, usePlace, withQuery } from '../router';
import { useAddresses } from '../shell/rows';
import { useMayAct, useWorld } from '../store/hooks';
import { ofTask } from '../store/offers';
import { useStore } from '../store/store';
import { hasEnded, type Task } from '../store/world';
import { Graph } from './Graph';
import { Happened } from './Happened';
import { Progress } from './Progress';
import { RunFiles } from './RunFiles';
import { TaskBody } from './TaskBody';
import { TaskTable } from './TaskTable';
import { flat, Timeline } from './Timeline';
import { useRun } from './useRun';

const TABS = ['overview', 'tasks', 'events', 'files'] as const;
type Tab = (typeof TABS)[number];

export default function RunView({ id, onMenu }: { id: string } & WithMenu) {
  const place = usePlace();
  const { value: run, fault } = useRun(id);
  const { tasks } = useWorld();
  const own = useMemo(() => [...tasks.values()].filter((task) => task.run === id), [tasks, id]);
  const tab: Tab = TABS.find((name) => name === place.query.get('tab')) ?? 'overview';
  const fold = place.query.get('fold') === 'done';
  const attempts = run ? Math.max(1, ...flat(run.tasks).map((task) => task.attempt)) : 1;
  const attempt = Number(place.query.get('attempt')) || undefined;
  const chosen = own.find((task) => task.id === place.query.get('task'));
  const to = (changes: Record<string, string | undefined>) => go(withQuery(place, changes), 'replace');
  const href = (task: string) => withQuery(place, { task });
  useAddresses(own, (task) => task === chosen, (task) => href(task.id));
  return (
    <>
      <Head title={run?.title || id} note={run ? run.status.replace('_', ' ') : fault} onMenu={onMenu}>
        <span className="push" />
        <Progress tasks={own} />
      </Head>
      <div className="bar">
        <div className="tabs" role="group" aria-label="Picture">
          {TABS.map((name) => (
            <button key={name} type="button" className="tab" {...(tab === name ? { 'aria-current': true } : {})} onClick={() => to({ tab: name === 'overview' ? undefined : name })}>{name[0]?.toUpperCase() + name.slice(1)}</button>
          ))}
        </div>
        <span className="push" />
        {tab === 'overview' && attempts > 1 && (
          <select className="field" aria-label="Attempt" value={attempt ?? ''} onChange={(event) => to({ attempt: event.target.value || undefined })}>
            <option value="">All attempts</option>
            {Array.from({ length: attempts }, (_, index) => <option key={index} value={index + 1}>Attempt {index + 1}</option>)}
          </select>
        )}
        {tab === 'overview' && own.some(hasEnded) && <button type="button" className="chip" aria-pressed={fold} onClick={() => to({ fold: fold ? undefined : 'done' })}>Fold done</button>}
      </div>
      <div className={chosen ? 'run with-task' : 'run'}>
        {tab === 'overview' && (
          <div className="pictures">
            <section className="picture" aria-label="Graph"><Graph tasks={own} foldDone={fold} chosen={chosen?.id} href={href} /></section>
            <section className="picture" aria-label="Time line">{run && <Timeline tasks={run.tasks} attempt={attempt} chosen={chosen?.id} href={href} />}</section>
          </div>
        )}
        {tab === 'tasks' && <div className="scroll page"><TaskTable tasks={own} /></div>}
        {tab === 'events' && <RunEvents run={id} />}
        {tab === 'files' && <RunFiles tasks={own} />}
        {chosen && <Chosen task={chosen} onClose={() => to({ task: undefined })} />}
      </div>
      <div />
    </>
  );
}

const MOST_EVENTS = 200;

function RunEvents({ run }: { run: string }) {
  const events = useStore((state) => state.events);
  const own = useMemo(() => events.filter((event) => event.run === run).slice(-MOST_EVENTS), [events, run]);
  return (
    <div className="scroll page" tabIndex={0} role="region" aria-label="Events">
      <p><a className="link" href={`${at('stream')}?run=${encodeURIComponent(run)}`}>All of them in the stream</a></p>
      <Happened events={own} />
    </div>
  );
}

function Chosen({ task, onClose }: { task: Task; onClose: () => void }) {
  const world = useWorld();
  const mayAct = useMayAct();
  return (
    <aside className="chosen-task" aria-label={task.title}>
      <h2 className="title"><span className="cut">{task.title}</span><span className="push"><TaskState task={task} /></span><button type="button" aria-label="Close" onClick={onClose}><Icon name="close" /></button></h2>
      <TaskBody task={task}><div className="deeds"><Offers offers={ofTask(task, world)} disabled={!mayAct} /><a className="button" href={at('tasks', task.id)}>Open</a></div></TaskBody>
    </aside>
  );
}
