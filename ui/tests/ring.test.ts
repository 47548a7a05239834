import { expect, it } from 'vitest';
import type { LogEvent } from '../src/store/event';
import { Ring } from '../src/store/ring';

const events = (from: number, to: number): LogEvent[] =>
  Array.from({ length: to - from + 1 }, (_, index) => ({
    seq: from + index, at: 0, kind: 'x', type: 'x', actor: '', auth: '', run: '', thread: '', task: null, cause: null, payload: {},
  }));

it('never holds much more than its bound, and keeps the newest', () => {
  const ring = new Ring(100);
  for (let seq = 1; seq <= 10_000; seq += 10) ring.push(events(seq, seq + 9));
  expect(ring.all.length).toBeLessThanOrEqual(125);
  expect(ring.last).toBe(10_000);
  expect(ring.all.every((event, index) => index === 0 || event.seq === (ring.all[index - 1]?.seq ?? 0) + 1)).toBe(true);
});

it('takes earlier pages before what is there, without a repeat', () => {
  const ring = new Ring(100);
  ring.push(events(50, 60));
  ring.unshift(events(40, 52));
  expect([ring.first, ring.last, ring.all.length]).toEqual([40, 60, 21]);
});

it('lists do not change once they were given out', () => {
  const ring = new Ring(100);
  ring.push(events(1, 3));
  const before = ring.all;
  ring.push(events(4, 5));
  expect(before).toHaveLength(3);
});
