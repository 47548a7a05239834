// Where the daemon itself is not needed to see that the fold is right; `e2e/fold.spec.ts` holds it against the daemon.

import { describe, expect, it } from 'vitest';
import type { LogEvent, Payload } from '../src/store/event';
import { fold } from '../src/store/fold';
import { NOTHING, type World } from '../src/store/world';

let seq = 0;
const event = (kind: string, payload: Payload, more: Partial<LogEvent> = {}): LogEvent => ({
  seq: (seq += 1), at: 1000 + seq, kind, type: kind, actor: 'a', auth: 'asserted', run: 'run_default', thread: 'thr_default', task: null, cause: null, payload, ...more,
});

function story(): LogEvent[] {
  seq = 0;
  return [
    event('agent.registered', { id: 'a', tool: 'codex', role: 'worker', capabilities: ['code'] }),
    event('lead.chosen', { holder: 'a' }),
    event('task.created', { task: 't1', run: 'run_default', title: 'One', assigned_by: 'a', depends_on: [], waiting_on: [] }),
    event('task.created', { task: 't2', run: 'run_default', title: 'Two', assigned_by: 'a', depends_on: ['t1'], waiting_on: ['t1'] }),
    event('task.claimed', { task: 't1', agent: 'a' }),
    event('task.started', { task: 't1', holder: 'a', from: 'pending' }),
    event('file.claimed', { path: 'src/x.rs', agent: 'a', hash: 'h', task: 't1' }),
    event('task.timed_out', { code: 'RUNTIME', message: 'took too long', retryable: true, details: { attempt: 1, holder: 'agent:a' } }, { task: 't1' }),
    event('file.released', { path: 'src/x.rs', holder: 'a', because: 'task_ended' }),
    event('task.retried', { task: 't1', attempt: 2 }),
    event('task.claimed', { task: 't1', agent: 'a' }),
    event('task.started', { task: 't1', holder: 'a', from: 'pending' }),
    event('task.completed', { task: 't1', holder: 'a', from: 'in_progress', outcome: { text: 'done' }, unblocks: ['t2'] }),
    event('agent.went_offline', { agent: 'a', evidence: {}, lost: {} }),
  ];
}

const plainly = (world: World) => ({ ...world, agents: [...world.agents], tasks: [...world.tasks], files: [...world.files], handoffs: [...world.handoffs] });

describe('the fold', () => {
  it('comes to the same in one go, one by one, and from any place in between', () => {
    const events = story();
    const whole = plainly(fold(NOTHING, events));
    expect(plainly(events.reduce((world, one) => fold(world, [one]), NOTHING))).toEqual(whole);
    for (let place = 0; place <= events.length; place += 1) {
      const middle = fold(NOTHING, events.slice(0, place));
      expect(plainly(fold(middle, events.slice(place)))).toEqual(whole);
    }
  });

  it('knows what time does to a task, in the form that the protocol shows it', () => {
    const world = fold(NOTHING, story().slice(0, 8));
    expect(world.tasks.get('t1')).toMatchObject({ state: 'failed', reason: 'took too long', holder: undefined, workedBy: 'a' });
    expect(world.agents.get('a')).toMatchObject({ status: 'idle', holding: 0, currentTask: undefined });
  });

  it('unblocks what waited, and puts an agent offline with nothing in its hands', () => {
    const world = fold(NOTHING, story());
    expect(world.tasks.get('t2')?.waitingOn).toEqual([]);
    expect(world.tasks.get('t1')).toMatchObject({ state: 'completed', outcome: 'done', attempt: 2 });
    expect(world.agents.get('a')).toMatchObject({ status: 'offline', currentTask: undefined });
  });

  it('knows who paused an agent, also after it came back, and until somebody lets it go on', () => {
    const [joined] = story();
    if (!joined) throw new Error('the story has no beginning');
    const paused = fold(NOTHING, [joined, event('agent.paused', { agent: 'a', paused_by: 'person:anna', reason: 'lunch' }, { at: 5000 }), joined]);
    expect(paused.agents.get('a')?.paused).toEqual({ by: 'person:anna', reason: 'lunch', since: 5000 });
    expect(fold(paused, [event('agent.resumed', { agent: 'a' })]).agents.get('a')?.paused).toBeUndefined();
  });

  it('shares tables that nothing touched, and leaves the world before as it was', () => {
    const events = story();
    const before = fold(NOTHING, events.slice(0, 6));
    const copy = structuredClone(plainly(before));
    const after = fold(before, events.slice(6, 7));
    expect(after.tasks).toBe(before.tasks);
    expect(after.files).not.toBe(before.files);
    fold(before, events.slice(6));
    expect(plainly(before)).toEqual(copy);
  });

  it('takes nothing amiss that an unknown or odd fact says', () => {
    const odd: Payload[] = [{}, { task: 7, agent: null, path: [] }, { task: 'nowhere', holder: 'nobody', unblocks: [1, null] }];
    const kinds = ['task.claimed', 'task.completed', 'task.removed', 'file.claimed', 'handoff.accepted', 'agent.registered', 'agent.status_set', 'something.new'];
    const events = kinds.flatMap((kind) => odd.map((payload) => event(kind, payload)));
    expect(() => fold(NOTHING, events)).not.toThrow();
  });
});
