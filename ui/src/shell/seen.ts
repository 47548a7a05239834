// How far the person has read each channel, on this machine.

import { useSyncExternalStore } from 'react';

const KEY = 'rookery.seen';
let seen: Readonly<Record<string, number>> = load();
const listeners = new Set<() => void>();

function load(): Record<string, number> {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? '{}');
    return found !== null && typeof found === 'object' ? (found as Record<string, number>) : {};
  } catch {
    return {};
  }
}

/** Keyed by log and channel: another log has other numbers. */
const name = (log: string, channel: string) => `${log} ${channel}`;

export function markSeen(log: string, channel: string, seq: number): void {
  const key = name(log, channel);
  if ((seen[key] ?? -1) >= seq) return;
  seen = { ...seen, [key]: seq };
  localStorage.setItem(KEY, JSON.stringify(seen));
  for (const listener of listeners) listener();
}

export function seenUpto(log: string, channel: string): number | undefined {
  return seen[name(log, channel)];
}

export function useSeen(log: string, channel: string): number | undefined {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => seen[name(log, channel)],
  );
}
