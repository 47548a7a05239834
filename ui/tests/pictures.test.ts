import { describe, expect, it } from 'vitest';
import { contentOf } from '../src/layout/content';
import { density, seqAt } from '../src/layout/density';
import { folded, kin } from '../src/layout/folded';
import { agentShape, SILENT_MILLIS, STALE_MILLIS } from '../src/parts/Glyph';
import { instanceOfEvent } from '../src/store/instance';
import type { LogEvent } from '../src/store/event';
import type { Agent } from '../src/store/world';

describe('finished work', () => {
  const done = new Set(['a', 'b', 'c', 'x']);
  const nodes = [
    { id: 'a', dependsOn: [] }, { id: 'b', dependsOn: ['a'] }, { id: 'c', dependsOn: ['b'] }, { id: 'd', dependsOn: ['c'] }, { id: 'x', dependsOn: [] }, { id: 'y', dependsOn: [] },
  ];

  it('folds into what stands right before open work', () => {
    const { shown, hidden } = folded(nodes, (node) => done.has(node.id));
    expect(shown.map(({ node, behind }) => `${node.id}${behind}`)).toEqual(['c2', 'd0', 'y0']);
    expect(hidden).toBe(3);
    expect(folded(nodes, () => false).hidden).toBe(0);
  });

  it('what leads to a task and what follows from it is its kin', () => {
    expect([...kin(nodes, 'b')].sort()).toEqual(['a', 'b', 'c', 'd']);
    expect([...kin(nodes, 'y')]).toEqual(['y']);
  });
});

describe('the line of the whole log', () => {
  const points = [{ seq: 1, at: 0, trouble: undefined }, { seq: 1001, at: 1000, trouble: undefined }, { seq: 1002, at: 2000, trouble: 'bad' as const }];

  it('spreads what is known only by samples over the time between them', () => {
    const { bars } = density(points, 10);
    expect(bars.slice(0, 4).every((bar) => bar.height > 20)).toBe(true);
    expect(bars.at(-1)).toMatchObject({ trouble: 'bad' });
  });

  it('finds the event at a place, also between samples', () => {
    const { line } = density(points, 10);
    if (!line) throw new Error('there is a line');
    expect(seqAt(points, line, 0)).toBe(1);
    expect(seqAt(points, line, line.at(500))).toBeCloseTo(501, -1);
    expect(seqAt(points, line, 1)).toBe(1002);
    expect(density([], 10).line).toBeUndefined();
  });
});

describe('an agent', () => {
  const agent = { status: 'working' } as Agent;

  it('is working, alive but silent, or without a sign of life', () => {
    expect(agentShape(agent, { beat: 0, event: 0 })).toBe('working');
    expect(agentShape(agent, { beat: 0, event: SILENT_MILLIS + 1 })).toBe('silent');
    expect(agentShape(agent, { beat: STALE_MILLIS + 1, event: 0 })).toBe('stale');
    expect(agentShape(agent)).toBe('working');
  });

  it('is never shown as waiting when it only rests', () => {
    const idle = { ...agent, status: 'idle' as const, paused: undefined };
    expect(agentShape(idle, { beat: STALE_MILLIS + 1, event: SILENT_MILLIS + 1 })).toBe('idle');
    expect(agentShape({ ...idle, paused: { by: 'person:anna', reason: undefined, since: 1 } })).toBe('paused');
    expect(agentShape({ ...agent, status: 'waiting_review' })).toBe('waiting');
  });
});

describe('the team of an event', () => {
  const event = (more: Partial<LogEvent>) => ({ thread: 'thr_default', run: 'run_default', actor: 'watcher', payload: {}, ...more }) as LogEvent;
  it.each([
    [{}, 'default'],
    [{ thread: 'thr_pr-1' }, 'pr-1'],
    [{ run: 'run_pr-1' }, 'pr-1'],
    [{ run: 'wf_1', actor: 'ada@pr-1' }, 'pr-1'],
    [{ actor: 'person:local', payload: { agent: 'ada@pr-1' } }, 'pr-1'],
    [{ actor: 'ada' }, 'default'],
  ])('%j is of %s', (more, instance) => expect(instanceOfEvent(event(more))).toBe(instance));
});

describe('an artifact', () => {
  const is = (text: string, whole = true) => contentOf(new TextEncoder().encode(text), whole).is;
  it.each([
    ['plain words', 'text'],
    ['# A title\n\nwords', 'markdown'],
    ['{"a": 1}', 'json'],
    ['{"a": ', 'text'],
    ['<!doctype html><p>', 'html'],
    ['<svg onload="x()">', 'html'],
    ['diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n', 'diff'],
    ['\0\0', 'other'],
  ])('%j is %s', (text, kind) => expect(is(text)).toBe(kind));

  it('is known by its bytes, also if it was cut', () => {
    expect(contentOf(new Uint8Array([0x89, 0x50, 0x4e, 0x47, 1]), true)).toEqual({ is: 'image', type: 'image/png' });
    expect(contentOf(new Uint8Array([0x89, 0x50, 0x4e, 0x47, 1]), false)).toEqual({ is: 'other' });
    expect(contentOf(new TextEncoder().encode('Grüße').slice(0, 3), false).is).toBe('text');
    expect(contentOf(new Uint8Array([0xff, 0xfe, 0x41]), true).is).toBe('other');
  });
});
