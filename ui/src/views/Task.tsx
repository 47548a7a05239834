// One task: how it stands, what it waits for, why it went where it went, and what can be done about it.

import { useMemo } from 'react';
import { ChooseAgent } from '../parts/Choose';
import { Head, type WithMenu } from '../parts/Head';
import { TaskState } from '../parts/State';
import { Age, full } from '../parts/time';
import { at } from '../router';
import * as actions from '../store/actions';
import { text } from '../store/event';
import { useMayAct, useNames, useWorld } from '../store/hooks';
import { useStore } from '../store/store';
import { assignee, isOpen, type Task } from '../store/world';
import { Happened } from './Happened';
import { Checkpoints } from './RunPanel';
import { Why } from './Why';

export default function TaskView({ id, onMenu }: { id: string } & WithMenu) {
  const task = useWorld().tasks.get(id);
  if (!task) return <><Head title="Task" onMenu={onMenu} /><div /><p className="empty">There is no task <code>{id}</code>{' '}here.</p><div /></>;
  return (
    <>
      <Head title={task.title} note={<span className="mono">{task.id}</span>} onMenu={onMenu}><span className="push"><TaskState task={task} /></span></Head>
      <div className="bar"><Deeds task={task} /></div>
      <div className="scroll page"><Body task={task} /></div>
      <div />
    </>
  );
}

function Deeds({ task }: { task: Task }) {
  const mayAct = useMayAct();
  const holder = assignee(task);
  const button = (label: string, run: () => void, main = false) => <button type="button" className={main ? 'button main-action' : 'button'} disabled={!mayAct} onClick={run}>{label}</button>;
  return (
    <>
      {task.state === 'review' && holder && <>{button('Approve', () => void actions.approve(task.id, holder), true)}{button('Request changes', () => void actions.sendBack(task.id, holder))}</>}
      {task.state === 'paused' && holder && button('Let it go on', () => void actions.resume(task.id, holder), true)}
      {task.state === 'failed' && button('Retry', () => void actions.retry(task.id), true)}
      {isOpen(task.state) && <ChooseAgent label={holder ? 'Reassign' : 'Give to'} disabled={!mayAct} except={holder} onChoose={(agent) => void actions.assign(task.id, agent)} />}
      {isOpen(task.state) && button('Cancel', () => void actions.cancel(task.id, ''))}
      <a className="button push" href={`${at('stream')}?task=${encodeURIComponent(task.id)}`}>Events</a>
      <a className="button" href={at('runs', task.run)}>Run</a>
    </>
  );
}

function Body({ task }: { task: Task }) {
  const { tasks } = useWorld();
  const names = useNames();
  const events = useStore((state) => state.events);
  const routing = useStore((state) => state.routings.get(task.id));
  const own = useMemo(() => events.filter((event) => event.task === task.id || text(event.payload, 'task') === task.id), [events, task.id]);
  const waits = (ids: readonly string[]) => ids.map((dep) => <li key={dep}><a className="state" href={at('tasks', dep)}>{tasks.has(dep) ? <TaskState task={tasks.get(dep) as Task} /> : null} {names.task(dep)}</a></li>);
  const behind = [...tasks.values()].filter((other) => other.dependsOn.includes(task.id)).map((other) => other.id);
  return (
    <>
      {task.description && <p className="text">{task.description}</p>}
      <dl className="facts">
        <dt>Who</dt><dd>{assignee(task) ?? 'nobody'}</dd>
        <dt>Asked by</dt><dd>{task.assignedBy}</dd>
        <dt>In state</dt><dd><Age since={task.since} /></dd>
        <dt>Created</dt><dd>{full(task.createdAt)}</dd>
        <dt>Attempt</dt><dd>{task.attempt}</dd>
        {task.reason && <><dt>Reason</dt><dd>{task.reason}</dd></>}
        {task.outcome && <><dt>Outcome</dt><dd className="text">{task.outcome}</dd></>}
        {task.resources.length > 0 && <><dt>Files</dt><dd className="mono">{task.resources.join(', ')}</dd></>}
      </dl>
      {task.dependsOn.length > 0 && <><h2 className="subtitle">Depends on</h2><ul>{waits(task.dependsOn)}</ul></>}
      {behind.length > 0 && <><h2 className="subtitle">Waits for this</h2><ul>{waits(behind)}</ul></>}
      {routing && <section className="section"><Why event={routing} title={task.title} /></section>}
      <section className="section"><Checkpoints task={task} /></section>
      <h2 className="subtitle">What happened, among the events that are here</h2>
      <Happened events={own.slice(-100)} />
    </>
  );
}
