// Times and ages. One timer for all ages of the page.

import { useSyncExternalStore } from 'react';
import { usePast } from '../store/replay';

let now = Date.now();
const listeners = new Set<() => void>();
setInterval(() => {
  now = Date.now();
  for (const listener of listeners) listener();
}, 1000);

/** The time, once a second. */
export function useNow(): number {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => now,
  );
}

/** The time that the page shows: now, or that of the event that is looked at. */
export function useMoment(): number {
  const time = useNow();
  return usePast()?.time ?? time;
}

export function lasted(millis: number): string {
  const seconds = Math.max(0, Math.round(millis / 1000));
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return minutes < 3 && seconds % 60 ? `${minutes}m ${seconds % 60}s` : `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return hours < 6 && minutes % 60 ? `${hours}h ${minutes % 60}m` : `${hours}h`;
  return `${Math.floor(hours / 24)}d`;
}

/** Where there is little room. */
export function roughly(millis: number): string {
  return lasted(millis).split(' ')[0] ?? '';
}

export function Age({ since }: { since: number }) {
  const time = useMoment();
  return <time dateTime={new Date(since).toISOString()} title={full(since)}>{lasted(time - since)}</time>;
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const CLOCK_SECONDS = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const DAY = new Intl.DateTimeFormat(undefined, { weekday: 'long', day: 'numeric', month: 'long' });
const SHORT_DAY = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium', hourCycle: 'h23' });

export const clock = (at: number): string => CLOCK.format(at);
export const clockSeconds = (at: number): string => CLOCK_SECONDS.format(at);
export const shortDay = (at: number): string => SHORT_DAY.format(at);
export const day = (at: number): string => DAY.format(at);
export const full = (at: number): string => FULL.format(at);
export const isSameDay = (a: number, b: number): boolean => new Date(a).toDateString() === new Date(b).toDateString();
