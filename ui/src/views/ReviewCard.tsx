// The review that a message asks for: the decision, right below it.

import { Offers } from '../parts/Offers';
import { at } from '../router';
import { ofTask } from '../store/offers';
import { useMayAct, useWorld } from '../store/hooks';
import type { Task } from '../store/world';

export function ReviewCard({ task }: { task: Task }) {
  const world = useWorld();
  const mayAct = useMayAct();
  const behind = [...world.tasks.values()].filter((other) => other.waitingOn.includes(task.id)).length;
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
