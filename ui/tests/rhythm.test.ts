import { expect, it } from 'vitest';
import { Rhythm, type Timers } from '../src/store/rhythm';

class Fake implements Timers {
  time = 0;
  frames: (() => void)[] = [];
  timers: { millis: number; run: () => void }[] = [];
  now = () => this.time;
  frame = (run: () => void) => void this.frames.push(run);
  after = (millis: number, run: () => void) => void this.timers.push({ millis, run });
}

it('shows with the next frame while little happens', () => {
  const timers = new Fake();
  let flushes = 0;
  const rhythm = new Rhythm(() => void (flushes += 1), timers);
  rhythm.came(3);
  rhythm.came(2);
  expect([timers.frames.length, timers.timers.length]).toEqual([1, 0]);
  timers.frames[0]?.();
  expect(flushes).toBe(1);
});

it('shows every 100 ms while much happens, one flush for all that came', () => {
  const timers = new Fake();
  let flushes = 0;
  const rhythm = new Rhythm(() => void (flushes += 1), timers);
  rhythm.came(100);
  rhythm.came(100);
  expect(timers.timers.map((timer) => timer.millis)).toEqual([100]);
  timers.timers[0]?.run();
  expect(flushes).toBe(1);
  expect(rhythm.perSecond()).toBe(200);
  timers.time = 1500;
  expect(rhythm.perSecond()).toBe(0);
  rhythm.came(1);
  expect(timers.frames).toHaveLength(1);
});
