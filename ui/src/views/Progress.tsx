// How far a set of tasks is, as one bar.

import { taskShape, toneOf, type Tone } from '../parts/Glyph';
import type { Task } from '../store/world';

const ORDER: Tone[] = ['done', 'run', 'wait', 'block', 'fail', 'idle'];
const NAMES: Record<Tone, string> = { done: 'done', run: 'working', wait: 'in review', block: 'blocked', fail: 'failed', idle: 'queued' };

export function Progress({ tasks }: { tasks: readonly Task[] }) {
  const counts = new Map<Tone, number>();
  for (const task of tasks) {
    const tone = task.state === 'pending' ? 'idle' : toneOf(taskShape(task));
    const counted = task.state === 'cancelled' || task.state === 'skipped' ? 'done' : tone;
    counts.set(counted, (counts.get(counted) ?? 0) + 1);
  }
  const label = ORDER.filter((tone) => counts.get(tone)).map((tone) => `${counts.get(tone)} ${NAMES[tone]}`).join(', ');
  return (
    <>
      <div className="progress" role="img" aria-label={`${tasks.length} tasks: ${label}`}>
        {ORDER.filter((tone) => counts.get(tone)).map((tone) => <i key={tone} className={`fill-${tone}`} style={{ flexGrow: counts.get(tone) }} />)}
      </div>
      <span className="num quiet cut">{counts.get('done') ?? 0} of {tasks.length}</span>
    </>
  );
}
