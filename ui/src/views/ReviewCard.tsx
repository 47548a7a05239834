// A message of somebody whose task waits for review: the decision, right below it.

import { Offers } from '../parts/Offers';
import { at } from '../router';
import { ofTask } from '../store/offers';
import { useMayAct, useWorld } from '../store/hooks';
import type { Entry } from '../store/talk';
import type { Task } from '../store/world';

/** How long before the task came into review a message may have been written to be about it. */
const ABOUT_MILLIS = 120_000;

export function ReviewCard({ entry }: { entry: Entry }) {
  const world = useWorld();
  const { tasks } = world;
  const mayAct = useMayAct();
  const task = reviewed(entry, tasks);
  if (!task?.holder) return null;
  const behind = [...tasks.values()].filter((other) => other.waitingOn.includes(task.id)).length;
  return (
    <div className="card">
      <div className="row"><span className="quiet">Review</span><a href={at('tasks', task.id)}><b>{task.title}</b></a></div>
      <div className="row">
        <Offers offers={ofTask(task, world).slice(0, 2)} disabled={!mayAct} />
        {behind > 0 && <span className="push quiet">{behind} task{behind === 1 ? ' waits' : 's wait'} on this</span>}
      </div>
    </div>
  );
}

/** The author's task in review, if the message mentions somebody about the time it came into review or later. */
export function reviewed(entry: Entry, tasks: ReadonlyMap<string, Task>): Task | undefined {
  if (entry.mentions.length + entry.unknown.length === 0) return undefined;
  for (const task of tasks.values()) {
    if (task.state === 'review' && task.holder === entry.from && entry.at > task.since - ABOUT_MILLIS) return task;
  }
  return undefined;
}
