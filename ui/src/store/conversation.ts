// The rows of a channel: messages in their threads, events between them, and marks where a day or something new begins.

import type { Item } from './bursts';
import type { Entry } from './talk';

export type Marked = Item | { is: 'new'; key: string; at: number } | { is: 'day'; key: string; at: number };

/** Replies by the message that their thread began with. */
export function byRoot(entries: readonly Entry[]): Map<string, Entry[]> {
  const root = new Map<string, string>();
  const found = new Map<string, Entry[]>();
  for (const entry of entries) {
    if (entry.replyTo === undefined) continue;
    const top = root.get(entry.replyTo) ?? entry.replyTo;
    root.set(entry.id, top);
    found.set(top, [...(found.get(top) ?? []), entry]);
  }
  return found;
}

/** Messages that begin a thread, or whose beginning is not here. */
export function rootsOf(entries: readonly Entry[]): Entry[] {
  const ids = new Set(entries.map((entry) => entry.id));
  return entries.filter((entry) => entry.replyTo === undefined || !ids.has(entry.replyTo));
}

export const asItem = (entry: Entry): Marked => ({ is: 'entry', key: `m${entry.seq}`, at: entry.at, entry });

/** Puts in where a day begins, and what is new since the person was here last. */
export function withMarks(items: readonly Item[], newSince: number | undefined): Marked[] {
  const marked: Marked[] = [];
  let told = newSince === undefined;
  let before: number | undefined;
  for (const item of items) {
    if (before !== undefined && new Date(before).toDateString() !== new Date(item.at).toDateString()) {
      marked.push({ is: 'day', key: `d${item.key}`, at: item.at });
    }
    if (!told && item.is === 'entry' && item.entry.seq > (newSince ?? 0)) {
      told = true;
      marked.push({ is: 'new', key: 'new', at: before ?? item.at });
    }
    before = item.at;
    marked.push(item);
  }
  return marked;
}
