// How far a task is: what its agents saved on the way, and how it stands.

import { Glyph, taskShape, taskWord } from '../parts/Glyph';
import { clock } from '../parts/time';
import { at } from '../router';
import { type LogEvent, text } from '../store/event';
import type { Task } from '../store/world';

const MOST = 12;

export function Checkpoints({ task, history, link = true }: { task: Task; history: readonly LogEvent[]; link?: boolean }) {
  const own = history.filter((event) => event.kind === 'checkpoint.added');
  return (
    <>
      <h3>{link ? task.title : 'Checkpoints'} <span>{own.length} checkpoint{own.length === 1 ? '' : 's'}</span>{link && <a href={at('tasks', task.id)}>Open</a>}</h3>
      <ol className="checkpoints">
        {own.slice(-MOST).map((event) => (
          <li key={event.seq}><Glyph shape={text(event.payload, 'kind') === 'error' ? 'failed' : 'done'} /><span className="cut" title={text(event.payload, 'summary')}>{text(event.payload, 'summary')}</span><a href={at('event', event.seq)}><time>{clock(event.at)}</time></a></li>
        ))}
        <li><Glyph shape={taskShape(task)} /><span className="cut">{task.reason ?? taskWord(task)}</span><time>{clock(task.since)}</time></li>
      </ol>
    </>
  );
}
