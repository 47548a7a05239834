import { describe, expect, it } from 'vitest';
import { matters } from '../src/store/attention';
import type { Entry } from '../src/store/talk';
import { NOTHING, type Task, type World } from '../src/store/world';

const task = (id: string, state: Task['state'], more: Partial<Task> = {}): Task => ({
  id, run: 'run_default', title: id, description: '', assignedBy: 'a', state, reservedFor: undefined, holder: 'a', workedBy: 'a', fence: 1, resources: [], dependsOn: [],
  waitingOn: [], createdAt: 1, startedAt: 1, completedAt: undefined, reason: undefined, waitingFor: undefined, outcome: undefined, attempt: 1, since: 1, ...more,
});
const entry = (id: string, from: string, more: Partial<Entry> = {}): Entry => ({
  id, seq: Number(id), at: 1, thread: 'thr_default', from, name: from, text: 'x', mentions: [], people: [], unknown: [], to: [], priority: 'normal', replyTo: undefined, acked: [], ...more,
});
const seen = (tasks: Task[], more: Partial<Parameters<typeof matters>[0]> = {}) => ({
  world: { ...NOTHING, tasks: new Map(tasks.map((row) => [row.id, row])) } as World,
  talk: new Map(), session: { person: 'anna', ended: false, people: [], project: 'p' }, acknowledged: new Set<string>(), routings: new Map(), held: [], quiet: [], ...more,
});

describe('what needs a person', () => {
  it('comes in the order of what it holds up', () => {
    const tasks = [
      task('failed', 'failed'), task('review', 'review'), task('blocked', 'paused'),
      task('later', 'pending', { holder: undefined, waitingOn: ['blocked'] }), task('last', 'pending', { holder: undefined, waitingOn: ['later'] }),
    ];
    const found = matters(seen(tasks));
    expect(found.map((matter) => `${matter.kind} ${matter.behind}`)).toEqual(['blocked 2', 'review 0', 'failed 0']);
  });

  it('never mixes up idle, blocked and waiting for an answer', () => {
    const kinds = matters(seen([task('a', 'paused'), task('b', 'paused', { waitingFor: 'input' }), task('c', 'pending', { holder: undefined })])).map((matter) => matter.kind);
    expect(kinds).toEqual(['answer', 'blocked']);
  });

  it('goes away when it was put aside, and comes back when it changed', () => {
    const [matter] = matters(seen([task('a', 'failed')]));
    const acknowledged = new Set([matter?.key ?? '']);
    expect(matters(seen([task('a', 'failed')], { acknowledged }))).toEqual([]);
    expect(matters(seen([task('a', 'failed', { attempt: 2, since: 9 })], { acknowledged }))).toHaveLength(1);
  });

  it('has agents that show no sign of life, and those that are alive and do nothing', () => {
    const quiet = [{ id: 'a', shape: 'silent' as const, since: 5, claims: 0 }, { id: 'b', shape: 'stale' as const, since: 5, claims: 2 }];
    const found = matters(seen([], { quiet }));
    expect(found.map((matter) => `${matter.what}, ${matter.why}`)).toEqual(['b shows no sign of life, it holds 2 files', 'a is alive but silent, it is at work and nothing comes of it']);
    expect(matters(seen([], { quiet, acknowledged: new Set(found.map((matter) => matter.key)) }))).toEqual([]);
  });

  it('has mentions of me, until I answer them', () => {
    const asked = entry('1', 'a', { unknown: ['anna'] });
    const talk = (...entries: Entry[]) => new Map([['thr_default', entries]]);
    expect(matters(seen([], { talk: talk(asked) })).map((matter) => matter.kind)).toEqual(['mention']);
    expect(matters(seen([], { talk: talk(asked, entry('2', 'person:anna', { replyTo: '1' })) }))).toEqual([]);
    expect(matters(seen([], { talk: talk(entry('1', 'a', { unknown: ['ben'] })) }))).toEqual([]);
  });
});
