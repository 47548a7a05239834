// Tasks, as a board or a list of the same rows.

import { useMemo, useState } from 'react';
import { Glyph, taskShape, taskWord } from '../parts/Glyph';
import { Head, type WithMenu } from '../parts/Head';
import { Age } from '../parts/time';
import { at, go, usePlace, withQuery } from '../router';
import { useCursor } from '../shell/rows';
import * as actions from '../store/actions';
import { useMayAct, useWorld } from '../store/hooks';
import { assignee, type Task } from '../store/world';
import { TaskTable } from './TaskTable';

type Lane = 'queued' | 'working' | 'blocked' | 'failed' | 'review' | 'done';
const LANES: { name: Lane; title: string }[] = [
  { name: 'queued', title: 'Queued' }, { name: 'working', title: 'Working' }, { name: 'blocked', title: 'Blocked' },
  { name: 'failed', title: 'Failed' }, { name: 'review', title: 'In review' }, { name: 'done', title: 'Done' },
];
const MOST_CARDS = 60;

export default function TasksView({ onMenu }: WithMenu) {
  const place = usePlace();
  const { tasks } = useWorld();
  const mayAct = useMayAct();
  const list = place.query.get('view') === 'list';
  const who = place.query.get('agent') ?? '';
  const only = place.query.get('state') ?? '';
  const shown = useMemo(() => [...tasks.values()].reverse().filter((task) => (who === '' || assignee(task) === who) && (only === '' || laneOf(task) === only)), [tasks, who, only]);
  const people = useMemo(() => [...new Set([...tasks.values()].map(assignee))].filter((id): id is string => id !== undefined).sort(), [tasks]);
  const ordered = useMemo(() => (list ? shown : LANES.flatMap(({ name }) => shown.filter((task) => laneOf(task) === name))), [shown, list]);
  const [cursor] = useCursor(ordered.length, (deed, index) => {
    const task = ordered[index];
    if (deed !== 'open' || !task) return false;
    go(at('tasks', task.id));
    return true;
  });
  const chosen = ordered[cursor]?.id;
  return (
    <>
      <Head title="Tasks" note={`${shown.length}`} onMenu={onMenu}>{mayAct && <NewTask />}</Head>
      <div className="bar">
        <div className="tabs" role="group" aria-label="Form">
          {[['Board', undefined], ['List', 'list']].map(([title, value]) => (
            <button key={title} type="button" className="tab" {...(list === (value === 'list') ? { 'aria-current': true } : {})} onClick={() => go(withQuery(place, { view: value }), 'replace')}>{title}</button>
          ))}
        </div>
        <select className="field push" aria-label="State" value={only} onChange={(event) => go(withQuery(place, { state: event.target.value || undefined }), 'replace')}>
          <option value="">All states</option>
          {LANES.map(({ name, title }) => <option key={name} value={name}>{title}</option>)}
        </select>
        <select className="field" aria-label="Whose" value={who} onChange={(event) => go(withQuery(place, { agent: event.target.value || undefined }), 'replace')}>
          <option value="">Everybody's</option>
          {people.map((id) => <option key={id}>{id}</option>)}
        </select>
      </div>
      {list ? <div className="scroll page"><TaskTable tasks={shown} chosen={chosen} /></div> : <Board tasks={shown} chosen={chosen} />}
      <div />
    </>
  );
}

function laneOf(task: Task): Lane {
  switch (taskShape(task)) {
    case 'done':
    case 'cancelled': return 'done';
    case 'waiting': return 'review';
    case 'failed': return 'failed';
    case 'working': return 'working';
    default: return task.state === 'paused' ? 'blocked' : task.state === 'planning' ? 'working' : 'queued';
  }
}

function Board({ tasks, chosen }: { tasks: readonly Task[]; chosen: string | undefined }) {
  const lanes = useMemo(() => {
    const found = new Map<Lane, Task[]>();
    for (const task of tasks) found.set(laneOf(task), [...(found.get(laneOf(task)) ?? []), task]);
    return found;
  }, [tasks]);
  return (
    <div className="scroll" tabIndex={0} aria-label="Board" role="region">
      <div className="board">
        {LANES.map(({ name, title }) => {
          const own = lanes.get(name) ?? [];
          return (
            <section className="lane" key={name} aria-label={title}>
              <h2>{title} <span>{own.length}</span></h2>
              {own.slice(0, MOST_CARDS).map((task) => <Card key={task.id} task={task} chosen={task.id === chosen} />)}
              {own.length > MOST_CARDS && <a className="quiet" href={`${at('tasks')}?view=list`}>{own.length - MOST_CARDS} more in the list</a>}
            </section>
          );
        })}
      </div>
    </div>
  );
}

function Card({ task, chosen }: { task: Task; chosen: boolean }) {
  return (
    <a className={chosen ? 'task-card chosen' : 'task-card'} ref={(card) => (chosen ? card?.scrollIntoView({ block: 'nearest' }) : undefined)} href={at('tasks', task.id)}>
      <b><Glyph shape={taskShape(task)} />{task.title}</b>
      <small>{assignee(task) ?? 'nobody'} · {taskWord(task)} for <Age since={task.since} />{task.attempt > 1 && ` · attempt ${task.attempt}`}</small>
      {task.reason && <small className="cut">{task.reason}</small>}
    </a>
  );
}

function NewTask() {
  const [title, setTitle] = useState('');
  return (
    <form className="push state" onSubmit={(event) => {
      event.preventDefault();
      if (title.trim()) void actions.createTask(title.trim(), undefined).then((done) => done && setTitle(''));
    }}>
      <input className="field" aria-label="New task" placeholder="Ask for a task" value={title} onChange={(event) => setTitle(event.target.value)} />
      <button type="submit" className="button" disabled={title.trim() === ''}>Add</button>
    </form>
  );
}
