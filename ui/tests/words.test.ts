import { describe, expect, it } from 'vitest';
import { difference } from '../src/layout/difference';
import { scale } from '../src/layout/timeline';
import { interleave, summary } from '../src/store/bursts';
import type { LogEvent } from '../src/store/event';
import { mentioned, mentionOf, reach, reachWords, shownId, typing } from '../src/store/mentions';
import type { Entry } from '../src/store/talk';

const agents = new Map([['backend-1', {}], ['reviewer', {}], ['coder@pr-1', {}]]);

describe('writing', () => {
  // The same cases as the daemon's own test of mentions, where they concern the page.
  it.each([
    ['@coder please fix', 'coder@pr-1'],
    ['(@a), @b: and @a again!', 'a@pr-1 b@pr-1'],
    ['@a@pr-2, @b@default.', 'a@pr-2 b@default'],
    ['@agent:a, @agent:a@pr-2 and @agent: b', 'a a@pr-2 agent@pr-1'],
    ['@9lives @-x @é nothing', ''],
  ])('%s mentions %s', (text, wanted) => expect(mentioned(text, 'pr-1').join(' ')).toBe(wanted));

  it('tells who will be told and how urgently before it is sent', () => {
    const words = (text: string) => reachWords(reach(text, 'default', agents));
    expect(words('hello')).toBe('Notifies nobody; everybody can read it');
    expect(words('@backend-1 hello')).toBe('Notifies backend-1, normal priority');
    expect(words('@backend-1 ASAP')).toBe('Notifies backend-1, high priority');
    expect(words('@backend-1 @reviewer look')).toBe('Notifies backend-1, reviewer, high priority');
    expect(words('@bakend-1 look')).toContain('Nobody is called @bakend-1');
    expect(reachWords(reach('@ben look', 'default', agents, new Set(['ben'])))).toBe('Notifies no agent; ben will find it in Attention');
    const namesake = new Map([...agents, ['ben', {}]]) as typeof agents;
    expect(reachWords(reach('@ben look', 'default', namesake, new Set(['ben'])))).toBe('Notifies no agent; ben will find it in Attention');
  });

  it('reaches a member of default before the standalone agent of the same name', () => {
    const both = new Map([['coder', {}], ['coder@default', {}], ['helper', {}], ['tester@default', {}]]);
    const told = (text: string, channel = 'default') => reach(text, channel, both).agents;
    expect(told('@coder @helper @tester @agent:coder')).toEqual(['coder@default', 'helper', 'tester@default', 'coder']);
    expect(told('@coder@default @helper@default', 'pr-1')).toEqual(['coder@default', 'helper']);
    for (const channel of ['default', 'pr-1']) {
      for (const id of both.keys()) expect(told(`@${mentionOf(id, channel, both)}`, channel)).toEqual([id]);
    }
    expect(['coder', 'coder@default', 'tester@default', 'a@pr-1'].map((id) => shownId(id, both))).toEqual(['coder', 'coder@default', 'tester', 'a@pr-1']);
  });

  it('knows the mention that is being typed', () => {
    expect(typing('hello @ba', 9)).toEqual({ from: 6, start: 'ba' });
    expect(typing('@', 1)).toEqual({ from: 0, start: '' });
    expect(typing('mail a@b', 8)).toBeUndefined();
    expect(typing('@ba done', 8)).toBeUndefined();
  });
});

describe('folding', () => {
  const event = (seq: number, kind: string, actor: string): LogEvent => ({
    seq, at: seq, kind, type: kind, actor, auth: '', run: '', thread: '', task: null, cause: null, payload: {},
  });
  const entry = (seq: number) => ({ seq, at: seq, id: `m${seq}` }) as Entry;

  it('makes one line of what an agent did in a row, and leaves decisions alone', () => {
    const events = [event(1, 'task.claimed', 'a'), event(2, 'file.modified', 'a'), event(4, 'task.started', 'b'), event(5, 'routing.decided', 'router'), event(6, 'task.started', 'b')];
    const items = interleave([entry(3)], events, 'all');
    expect(items.map((item) => item.key)).toEqual(['b1', 'm3', 'b4', 'e5', 'b6']);
    expect(interleave([entry(3)], events, 'talk').map((item) => item.key)).toEqual(['m3']);
    expect(interleave([entry(3)], events, 'decisions').map((item) => item.key)).toEqual(['m3', 'e5']);
  });

  it('sums a burst up', () => {
    const events = [...Array(3).fill(event(1, 'file.modified', 'a')), event(2, 'checkpoint.added', 'a'), ...Array(2).fill(event(3, 'workspace.ready', 'a'))];
    expect(summary(events)).toBe('changed 3 files, saved 1 checkpoint, did 2 other things');
  });
});

describe('differences', () => {
  it('keeps common lines and tells the others', () => {
    const lines = difference('a\nb\nc', 'a\nx\nc\nd').map((line) => `${line.is[0]}${line.text}`);
    expect(lines).toEqual(['sa', 'rb', 'ax', 'sc', 'ad']);
  });

  it('both sides can be put together again', () => {
    const [before, after] = ['one\ntwo\nthree\nfour', 'zero\none\nthree\nfive\nfour\nsix'];
    const lines = difference(before, after);
    expect(lines.filter((line) => line.is !== 'added').map((line) => line.text).join('\n')).toBe(before);
    expect(lines.filter((line) => line.is !== 'removed').map((line) => line.text).join('\n')).toBe(after);
  });
});

describe('the time line', () => {
  it('folds long pauses, keeps order, and ends at 1', () => {
    const line = scale([{ from: 0, to: 100 }, { from: 10_000, to: 10_100 }], 10_100);
    const places = [0, 50, 100, 5000, 10_000, 10_050, 10_100].map((time) => line.at(time));
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(line.folds).toHaveLength(1);
    expect(line.at(100)).toBeGreaterThan(0.4);
    expect(line.at(10_100)).toBeCloseTo(1);
  });
});
