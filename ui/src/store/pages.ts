// The log by pages, wherever one looks. Events never change, so a page that was read is kept until too many others were wanted
// after it. One page is asked for at a time, and always the one that is wanted now: whoever drags through a hundred thousand events
// does not have them all read.

import { useSyncExternalStore } from 'react';
import { events as readEvents } from '../api/client';
import { type LogEvent, type Placed, read } from './event';

export const PAGE = 250;
const MOST_PAGES = 80;

interface Page { events: Map<number, LogEvent>; upto: number }

export class Pages {
  private pages = new Map<number, Page>();
  private wanted: { from: number; to: number } | undefined;
  private reading = false;
  private listeners = new Set<() => void>();
  /** Counted up whenever a page has come. */
  version = 0;

  constructor(private readonly ask: (after: number, limit: number) => Promise<Placed[]>) {}

  /** An event, if its page is here; `gone` if the log does not have it. */
  get(seq: number): LogEvent | 'gone' | undefined {
    const page = this.pages.get(pageOf(seq));
    return page?.events.get(seq) ?? (page && seq <= page.upto ? 'gone' : undefined);
  }

  /** These are in sight, of a log that goes up to `head`. */
  want(from: number, to: number, head: number): void {
    this.wanted = { from: Math.max(1, from), to: Math.min(to, head) };
    if (!this.reading) void this.read(head);
  }

  clear(): void {
    this.pages.clear();
    this.changed();
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  get count(): number {
    return this.pages.size;
  }

  private async read(head: number): Promise<void> {
    this.reading = true;
    try {
      for (let page = this.missing(); page !== undefined; page = this.missing()) {
        const after = page * PAGE;
        const rows = await this.ask(after, PAGE);
        const now = Date.now();
        const found = rows.filter((row) => row.seq <= after + PAGE).map((row) => read(row, now));
        this.keep(page, { events: new Map(found.map((event) => [event.seq, event])), upto: Math.min(after + PAGE, head) });
      }
    } catch {
      // Whoever looks on asks again.
    } finally {
      this.reading = false;
    }
  }

  private missing(): number | undefined {
    if (!this.wanted) return undefined;
    for (let page = pageOf(this.wanted.from); page <= pageOf(this.wanted.to); page += 1) {
      const upto = Math.min(this.wanted.to, (page + 1) * PAGE);
      if ((this.pages.get(page)?.upto ?? -1) < upto) return page;
    }
    return undefined;
  }

  private keep(number: number, page: Page): void {
    this.pages.delete(number);
    this.pages.set(number, page);
    const [oldest] = this.pages.keys();
    if (this.pages.size > MOST_PAGES && oldest !== undefined) this.pages.delete(oldest);
    this.changed();
  }

  private changed(): void {
    this.version += 1;
    for (const listener of this.listeners) listener();
  }
}

function pageOf(seq: number): number {
  return Math.floor((seq - 1) / PAGE);
}

export const pages = new Pages(readEvents);

/** Renders anew when a page has come. */
export function usePages(): Pages {
  useSyncExternalStore(pages.subscribe, () => pages.version);
  return pages;
}
