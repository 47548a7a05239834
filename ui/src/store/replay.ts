// The past: the team and its messages as they were after an event. The log is read from its beginning and folded; waypoints and the
// pages read last are kept, so that going back and forth by single events reads nothing again.

import { useSyncExternalStore } from 'react';
import { events as page } from '../api/client';
import { type LogEvent, read } from './event';
import { fold } from './fold';
import { current } from './store';
import { listen, type Talk } from './talk';
import { NOTHING, type World } from './world';

export interface Past {
  /** The event that is looked at. */
  at: number;
  time: number;
  /** That of the place before while the log is read up to this one; undefined if there was none. */
  world: World | undefined;
  /** The messages as they were then, the newest of each channel. */
  talk: Talk;
  /** The events up to then, the newest of them. */
  events: readonly LogEvent[];
  /** How far the log is read, while it is not read up to the place. */
  loading: number | undefined;
  playing: boolean;
}

/** What was folded up to an event. */
interface Waypoint { world: World; talk: Talk }

const BEGINNING: Waypoint = { world: NOTHING, talk: new Map() };
const PAGE = 1000;
const MOST_WAYPOINTS = 200;
const MOST_PAGES = 4;
/** Playing moves so often, and takes at most so many steps to the end. */
const BEAT_MILLIS = 400;
const MOST_BEATS = 150;

let past: Past | undefined;
let asked = 0;
let log = '';
const waypoints = new Map<number, Waypoint>();
/** Where the fold of what is shown stands. */
let reached: Waypoint = BEGINNING;
const pages = new Map<number, LogEvent[]>();
const listeners = new Set<() => void>();

function set(next: Past | undefined): void {
  past = next;
  for (const listener of listeners) listener();
}

export function usePast(): Past | undefined {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => past,
  );
}

export function live(): void {
  asked += 1;
  set(undefined);
}

/** Steps to another event of the log, from now or from where the replay is. */
export function step(by: number): void {
  void lookAt((past?.at ?? current().head) + by);
}

/** Looks at the world after an event. */
export async function lookAt(seq: number): Promise<void> {
  const { head } = current();
  const at = Math.max(1, Math.min(seq, head));
  if (at >= head) return live();
  forgetOther(current().log);
  const turn = (asked += 1);
  let { world, talk } = nearest(at);
  const tell = (next: Partial<Past>) => set({
    at, time: past?.time ?? Date.now(), world: past?.world, talk: past?.talk ?? BEGINNING.talk, events: past?.events ?? [],
    loading: world.seq, playing: past?.playing ?? false, ...next,
  });
  tell({});
  let events: LogEvent[] = [];
  while (world.seq < at || events.length === 0) {
    events = (await pageWith(Math.min(world.seq + 1, at))).filter((event) => event.seq <= at);
    if (turn !== asked) return;
    if (events.length === 0) return live();
    const following = events.filter((event) => event.seq > world.seq);
    world = fold(world, following);
    talk = listen(talk, following);
    if (world.seq % PAGE === 0) keep(waypoints, world.seq, { world, talk }, MOST_WAYPOINTS);
    if (world.seq < at) tell({});
  }
  const [first] = events;
  const before = first !== undefined && first.seq > 1 ? await pageWith(first.seq - 1) : [];
  if (turn !== asked) return;
  reached = { world, talk };
  tell({ time: events.at(-1)?.at ?? Date.now(), world, talk, events: [...before, ...events], loading: undefined });
}

/** Goes on by itself from where the replay is, or from the first event; or stops doing so. */
export function play(): void {
  if (past?.playing) return set({ ...past, playing: false });
  const from = past?.at ?? 1;
  const by = Math.max(1, Math.ceil((current().head - from) / MOST_BEATS));
  void lookAt(from).then(() => {
    if (!past) return;
    set({ ...past, playing: true });
    setTimeout(() => beat(by), BEAT_MILLIS);
  });
}

function beat(by: number): void {
  if (!past?.playing) return;
  void lookAt(past.at + by).then(() => setTimeout(() => beat(by), BEAT_MILLIS));
}

/** The page of the log that an event is in. */
async function pageWith(seq: number): Promise<LogEvent[]> {
  const number = Math.floor((seq - 1) / PAGE);
  const known = pages.get(number);
  if (known) return known;
  const now = Date.now();
  const events = (await page(number * PAGE, PAGE)).map((row) => read(row, now));
  if (events.length === PAGE) keep(pages, number, events, MOST_PAGES);
  return events;
}

function nearest(at: number): Waypoint {
  let best = reached.world.seq <= at ? reached : BEGINNING;
  for (const waypoint of waypoints.values()) if (waypoint.world.seq <= at && waypoint.world.seq >= best.world.seq) best = waypoint;
  return best;
}

function keep<T>(kept: Map<number, T>, key: number, value: T, most: number): void {
  kept.delete(key);
  kept.set(key, value);
  const [oldest] = kept.keys();
  if (kept.size > most && oldest !== undefined) kept.delete(oldest);
}

/** Another log has another past. */
function forgetOther(now: string): void {
  if (log === now) return;
  log = now;
  waypoints.clear();
  reached = BEGINNING;
  pages.clear();
}
