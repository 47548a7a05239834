// The newest events that a page holds, in order and without a gap, and never more than so many.

import type { LogEvent } from './event';

export class Ring {
  private events: LogEvent[] = [];
  private readonly most: number;

  constructor(most: number) {
    this.most = most;
  }

  /** Adds events that follow on. Those that are there already are left out; a hole before them is an error of the caller. */
  push(events: readonly LogEvent[]): void {
    const last = this.last;
    const fresh = last === undefined ? events : events.filter((event) => event.seq > last);
    this.events = [...this.events, ...fresh];
    // Cut in steps, so that not every flush copies everything twice.
    if (this.events.length > this.most + this.most / 4) this.events = this.events.slice(-this.most);
  }

  /** Adds a page of earlier events before those that are there. What does not fit in is left out at the far end. */
  unshift(events: readonly LogEvent[]): void {
    const first = this.first;
    const earlier = first === undefined ? events : events.filter((event) => event.seq < first);
    const room = Math.max(0, this.most + this.most / 4 - this.events.length);
    this.events = [...earlier.slice(Math.max(0, earlier.length - room)), ...this.events];
  }

  clear(): void {
    this.events = [];
  }

  /** A list that never changes: the next one is another. */
  get all(): readonly LogEvent[] {
    return this.events;
  }

  get first(): number | undefined {
    return this.events[0]?.seq;
  }

  get last(): number | undefined {
    return this.events.at(-1)?.seq;
  }
}
