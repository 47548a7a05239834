// Tasks as a list.

import { TaskState } from '../parts/State';
import { Age } from '../parts/time';
import { at } from '../router';
import { useNames } from '../store/hooks';
import { assignee, type Task } from '../store/world';

export function TaskTable({ tasks, chosen }: { tasks: readonly Task[]; chosen?: string | undefined }) {
  const names = useNames();
  if (tasks.length === 0) return <p className="empty">No tasks.</p>;
  return (
    <table className="table">
      <thead><tr><th>State</th><th>Task</th><th>Who</th><th className="wide">Waits for</th><th className="wide">Asked by</th><th className="num">In state</th><th className="num wide">Attempt</th></tr></thead>
      <tbody>
        {tasks.slice(0, 500).map((task) => (
          <tr key={task.id} className={task.id === chosen ? 'chosen' : ''}>
            <td><TaskState task={task} /></td>
            <td><a className="name" href={at('tasks', task.id)}>{task.title}</a></td>
            <td>{assignee(task) ?? <span className="quiet">nobody</span>}</td>
            <td className="wide">{task.waitingOn.length > 0 ? <span className="cut" title={task.waitingOn.map(names.task).join(', ')}>{names.task(task.waitingOn[0] ?? '')}{task.waitingOn.length > 1 && ` +${task.waitingOn.length - 1}`}</span> : <span className="quiet">–</span>}</td>
            <td className="wide">{task.assignedBy}</td>
            <td className="num"><Age since={task.since} /></td>
            <td className="num wide">{task.attempt}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
