// Which team something is about. Agents of an instance are called `name@instance`, the others are of the project itself; that
// tells it also for what the log keeps outside of the instance's own run, such as the workflow that its lead planned.

import { type LogEvent, text } from './event';
import type { Task } from './world';

const PROJECT = 'default';

export function instanceOf(agent: string): string {
  const at = agent.indexOf('@', 1);
  return at === -1 ? PROJECT : agent.slice(at + 1);
}

/** The instance whose channel an event belongs beside. */
export function instanceOfEvent(event: LogEvent): string {
  const named = [without(event.thread, 'thr_'), without(event.run, 'run_')].find((name) => name !== undefined && name !== PROJECT);
  if (named !== undefined) return named;
  const { payload } = event;
  const whose = [event.actor, text(payload, 'agent'), text(payload, 'holder'), text(payload, 'by'), text(payload, 'from')];
  return whose.map((id) => instanceOf(id ?? '')).find((name) => name !== PROJECT) ?? PROJECT;
}

function without(id: string, prefix: string): string | undefined {
  return id.startsWith(prefix) ? id.slice(prefix.length) : undefined;
}

/** The instance whose agents a task is for. */
export function instanceOfTask(task: Task): string {
  const named = without(task.run, 'run_');
  if (named !== undefined && named !== PROJECT) return named;
  return instanceOf(task.holder ?? task.reservedFor ?? task.workedBy ?? task.assignedBy);
}

/** The run to show beside a channel: the one that its agents were at last. */
export function runOf(instance: string, tasks: ReadonlyMap<string, Task>): string | undefined {
  let found: Task | undefined;
  for (const task of tasks.values()) {
    if (instanceOfTask(task) === instance && (found === undefined || task.since >= found.since)) found = task;
  }
  return found?.run;
}
