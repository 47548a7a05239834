// When what has arrived is shown: with the next frame while little happens, every 100 ms while much does. Rendering each
// frame at 1,000 events a second costs twice as much and shows nobody more.

const BUSY_PER_SECOND = 60;
const BUSY_MILLIS = 100;
const WINDOW_MILLIS = 1000;

export interface Timers {
  now(): number;
  frame(run: () => void): void;
  after(millis: number, run: () => void): void;
}

export class Rhythm {
  private arrived: { at: number; count: number }[] = [];
  private waiting = false;

  constructor(
    private readonly flush: () => void,
    private readonly timers: Timers,
  ) {}

  /** So many events came: a flush follows, and one for all that come until then. */
  came(count: number): void {
    const now = this.timers.now();
    this.arrived.push({ at: now, count });
    this.forget(now);
    if (this.waiting) return;
    this.waiting = true;
    const run = () => {
      this.waiting = false;
      this.flush();
    };
    if (this.perSecond() > BUSY_PER_SECOND) this.timers.after(BUSY_MILLIS, run);
    else this.timers.frame(run);
  }

  /** How many came within the last second. */
  perSecond(): number {
    this.forget(this.timers.now());
    return this.arrived.reduce((sum, { count }) => sum + count, 0);
  }

  private forget(now: number): void {
    const kept = this.arrived.findIndex(({ at }) => at > now - WINDOW_MILLIS);
    this.arrived = kept === -1 ? [] : this.arrived.slice(kept);
  }
}

/** Those of the browser. A page in the background gets no frames, so there is a timer behind each. */
export const browserTimers: Timers = {
  now: () => performance.now(),
  frame(run) {
    let done = false;
    const once = () => {
      if (!done) {
        done = true;
        run();
      }
    };
    requestAnimationFrame(once);
    setTimeout(once, 250);
  },
  after: (millis, run) => void setTimeout(run, millis),
};
