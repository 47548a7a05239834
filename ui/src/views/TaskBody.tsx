// What is to know about a task: on its own page, and beside the graph of its run.

import { TaskState } from '../parts/State';
import { Age, full } from '../parts/time';
import { at } from '../router';
import type { LogEvent } from '../store/event';
import { useTaskHistory } from '../store/history';
import { useNames, useWorld } from '../store/hooks';
import { useStore } from '../store/store';
import { assignee, type Task } from '../store/world';
import { Checkpoints } from './Checkpoints';
import { Happened } from './Happened';
import { Why } from './Why';

export function TaskBody({ task, children }: { task: Task; children?: React.ReactNode }) {
  const history = useTaskHistory(task.id);
  const routing = useRouting(task.id, history);
  const { tasks } = useWorld();
  const after = [...tasks.values()].filter((other) => other.dependsOn.includes(task.id)).map((other) => other.id);
  const who = assignee(task);
  return (
    <>
      {task.description && <p className="text">{task.description}</p>}
      {children}
      <dl className="facts">
        <dt>Who</dt><dd>{who ? <a className="link" href={at('agents', who)}>{who}</a> : 'nobody'}{who && <AgesOf agent={who} />}</dd>
        <dt>In state</dt><dd><Age since={task.since} />{task.attempt > 1 && `, attempt ${task.attempt}`}</dd>
        {task.reason && <><dt>Reason</dt><dd>{task.reason}</dd></>}
        {task.outcome && <><dt>Outcome</dt><dd className="text">{task.outcome}</dd></>}
        {task.resources.length > 0 && <><dt>Files</dt><dd>{task.resources.map((file) => <div key={file}><a className="mono link" href={at('files', ...file.split('/').filter(Boolean))}>{file}</a></div>)}</dd></>}
        <dt>Asked by</dt><dd>{task.assignedBy}, {full(task.createdAt)}</dd>
      </dl>
      <Chain title="Depends on" tasks={task.dependsOn} />
      <Chain title="Waits for this" tasks={after} />
      {routing && <section className="section"><Why event={routing} title={task.title} /></section>}
      <section className="section"><Checkpoints task={task} history={history} link={false} /></section>
      <h3 className="subtitle">What happened</h3>
      <Happened events={history.slice(-100)} />
    </>
  );
}

/** How alive the one is whom it depends on. */
function AgesOf({ agent }: { agent: string }) {
  const row = useWorld().agents.get(agent);
  const beat = useStore((state) => state.beats.get(agent));
  if (!row) return null;
  return <span className="quiet">, {beat !== undefined && <>sign of life <Age since={beat} /> ago, </>}last event <Age since={row.lastEvent} /> ago</span>;
}

function useRouting(task: string, history: readonly LogEvent[]): LogEvent | undefined {
  const known = useStore((state) => state.routings.get(task));
  return history.findLast((event) => event.kind.startsWith('routing.')) ?? known;
}

function Chain({ title, tasks: ids }: { title: string; tasks: readonly string[] }) {
  const { tasks } = useWorld();
  const names = useNames();
  if (ids.length === 0) return null;
  const row = (id: string) => {
    const task = tasks.get(id);
    return <li key={id}><a className="state" href={at('tasks', id)}>{task && <TaskState task={task} />} {names.task(id)}</a></li>;
  };
  return <><h3 className="subtitle">{title}</h3><ul>{ids.map(row)}</ul></>;
}
