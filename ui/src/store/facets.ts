// Which events somebody wants to see: by kind, agent, run, task, file and level. Filters are part of the address.

import { events as readEvents } from '../api/client';
import { isTrouble, levelOf, pathOf } from './describe';
import { type LogEvent, read } from './event';
import { eventName, withoutMark } from './eventNames';

export const FACETS = ['kind', 'agent', 'run', 'task', 'file', 'level'] as const;
export type Facet = (typeof FACETS)[number];
export type Filters = Record<Facet, string>;

export const LEVELS: Record<string, string> = { decision: 'Decisions and messages', task: 'Task changes too', trouble: 'Trouble only' };

export function filtersOf(query: URLSearchParams): Filters {
  return Object.fromEntries(FACETS.map((facet) => [facet, query.get(facet) ?? ''])) as Filters;
}

export function isFiltered(filters: Filters): boolean {
  return FACETS.some((facet) => filters[facet] !== '');
}

export function fits(event: LogEvent, filters: Filters): boolean {
  return FACETS.every((facet) => filters[facet] === '' || fitsOne(event, facet, filters[facet]));
}

function fitsOne(event: LogEvent, facet: Facet, wanted: string): boolean {
  const { payload } = event;
  switch (facet) {
    case 'kind': return [eventName(event), event.kind, event.type].some((name) => name.includes(wanted) || name.includes(withoutMark(wanted)));
    case 'agent': return [event.actor, payload['agent'], payload['holder']].includes(wanted);
    case 'run': return event.run === wanted;
    case 'task': return event.task === wanted || payload['task'] === wanted;
    case 'file': return pathOf(payload).includes(wanted);
    case 'level': return isAtLevel(event, wanted);
  }
}

function isAtLevel(event: LogEvent, wanted: string): boolean {
  if (wanted === 'trouble') return isTrouble(event) !== undefined;
  const level = levelOf(event);
  return level === 'talk' || level === 'decision' || (wanted === 'task' && level === 'task');
}

const PAGE = 1000;
/** How much of the log one search goes through, and how much it has to find to end before that. */
const MOST_PAGES = 10;
const ENOUGH = 50;

export interface Found { events: LogEvent[]; from: number }

/** Goes back through the log from before a place, until enough was found or much was read. `from` is how far it came. */
export async function searchBack(before: number, filters: Filters): Promise<Found> {
  let [from, events] = [before, [] as LogEvent[]];
  for (let page = 0; page < MOST_PAGES && from > 1 && events.length < ENOUGH; page += 1) {
    const after = Math.max(0, from - 1 - PAGE);
    const rows = await readEvents(after, from - 1 - after);
    const now = Date.now();
    const fitting = rows.filter((row) => row.seq < from).map((row) => read(row, now)).filter((event) => fits(event, filters));
    events = [...fitting, ...events];
    from = after + 1;
  }
  return { events, from };
}
