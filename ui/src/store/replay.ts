// The past: the world as it was at an event. The log is read from its beginning and folded; waypoints are kept, so that going
// back and forth does not begin anew each time.

import { useSyncExternalStore } from 'react';
import { events as page } from '../api/client';
import { type LogEvent, read } from './event';
import { fold } from './fold';
import { current } from './store';
import { NOTHING, type World } from './world';

export interface Past {
  /** The event that is looked at. */
  at: number;
  time: number;
  /** Undefined while the log is read up to it. */
  world: World | undefined;
  /** How far the log is read. */
  loaded: number;
}

const PAGE = 1000;
const MOST_WAYPOINTS = 200;

let past: Past | undefined;
let asked = 0;
const waypoints = new Map<number, World>([[0, NOTHING]]);
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

/** Looks at the world after an event. */
export async function lookAt(seq: number): Promise<void> {
  const head = current().head;
  const at = Math.max(1, Math.min(seq, head));
  if (at >= head) return live();
  const turn = (asked += 1);
  let world = nearest(at);
  set({ at, time: past?.time ?? Date.now(), world: undefined, loaded: world.seq });
  while (world.seq < at) {
    const rows = await page(world.seq, Math.min(PAGE, at - world.seq));
    if (turn !== asked) return;
    const now = Date.now();
    const events: LogEvent[] = rows.map((row) => read(row, now));
    if (events.length === 0) return live();
    world = fold(world, events);
    if (world.seq % PAGE === 0) keep(world);
    set({ at, time: events.at(-1)?.at ?? now, world: world.seq >= at ? world : undefined, loaded: world.seq });
  }
  if (past?.world === undefined) {
    const [row] = await page(at - 1, 1);
    if (turn === asked) set({ at, time: row ? read(row, Date.now()).at : Date.now(), world, loaded: at });
  }
}

function nearest(at: number): World {
  let best = NOTHING;
  for (const [seq, world] of waypoints) if (seq <= at && seq >= best.seq) best = world;
  return best;
}

function keep(world: World): void {
  if (waypoints.size >= MOST_WAYPOINTS) {
    const [, second] = [...waypoints.keys()];
    if (second !== undefined) waypoints.delete(second);
  }
  waypoints.set(world.seq, world);
}
