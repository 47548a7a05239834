import { describe, expect, it } from 'vitest';
import { reviewRequests } from '../src/store/reviews';
import type { Entry } from '../src/store/talk';
import type { Task } from '../src/store/world';

const MINUTE = 60_000;
const task = (id: string, since: number, more: Partial<Task> = {}): Task => ({
  id, run: 'run_default', title: `Title of ${id}`, description: '', assignedBy: 'a', state: 'review', reservedFor: undefined, holder: 'ada', workedBy: 'ada', fence: 1,
  resources: [], dependsOn: [], waitingOn: [], createdAt: 1, startedAt: 1, completedAt: undefined, reason: undefined, waitingFor: undefined, outcome: undefined, attempt: 1, since, ...more,
});
const says = (seq: number, at: number, text: string, more: Partial<Entry> = {}): Entry => ({
  id: `m${seq}`, seq, at, thread: 'thr_default', from: 'ada', name: 'ada', text, mentions: text.includes('@') ? ['anna'] : [], people: [], unknown: [], to: [], priority: 'normal', replyTo: undefined, acked: [], ...more,
});
const found = (entries: Entry[], tasks: Task[]) => [...reviewRequests(entries, new Map(tasks.map((row) => [row.id, row])))].map(([message, { id }]) => `${message} ${id}`);

describe('a review', () => {
  it('is under the message that asks for it, and under no later one', () => {
    const entries = [
      says(1, 5 * MINUTE, '@ben which column?'), says(2, 10 * MINUTE, '@anna please approve'), says(3, 11 * MINUTE, '@ben the tests are slow'),
      says(4, 12 * MINUTE, '@anna approve that too', { from: 'eve' }), says(5, 13 * MINUTE, 'approve?'),
    ];
    expect(found(entries, [task('t1', 10 * MINUTE)])).toEqual(['m2 t1']);
  });

  it('is under the message that names the task, not under that of an older review', () => {
    const entries = [says(1, 10 * MINUTE, '@anna please review'), says(2, 20 * MINUTE, '@anna Title of t2 is ready'), says(3, 30 * MINUTE, '@anna and t3?')];
    const tasks = [task('t1', 10 * MINUTE), task('t2', 20 * MINUTE), task('t3', 30 * MINUTE)];
    expect(found(entries, tasks).sort()).toEqual(['m1 t1', 'm2 t2', 'm3 t3']);
  });

  it('is not under a message about another task', () => {
    const entries = [says(1, 10 * MINUTE, '@ben please look at Title of t9')];
    expect(found(entries, [task('t1', 10 * MINUTE), task('t9', 1, { state: 'in_progress', holder: 'ben' })])).toEqual([]);
  });

  it('is not under what was said long before it', () => {
    expect(found([says(1, MINUTE, '@anna please review')], [task('t1', 10 * MINUTE)])).toEqual([]);
  });
});
