// A channel with what happened between the messages: machine events of one agent in a row are one line, which opens in place.

import { type Level, levelOf } from './describe';
import type { LogEvent } from './event';
import type { Entry } from './talk';

export type Item =
  | { is: 'entry'; key: string; at: number; entry: Entry }
  | { is: 'event'; key: string; at: number; event: LogEvent }
  | { is: 'burst'; key: string; at: number; agent: string; events: LogEvent[] };

/** Which events a channel shows beside its messages. */
export type Detail = 'talk' | 'decisions' | 'tasks' | 'all';

const SHOWN: Record<Detail, ReadonlySet<Level>> = {
  talk: new Set(),
  decisions: new Set<Level>(['decision']),
  tasks: new Set<Level>(['decision', 'task']),
  all: new Set<Level>(['decision', 'task', 'noise']),
};

/** Messages and events in one order. Alone stands what is a decision; the rest is folded by who did it. */
export function interleave(entries: readonly Entry[], events: readonly LogEvent[], detail: Detail): Item[] {
  const shown = SHOWN[detail];
  const others = events.filter((event) => shown.has(levelOf(event)));
  const items: Item[] = [];
  let next = 0;
  const upto = (seq: number) => {
    for (; next < others.length && (others[next]?.seq ?? 0) < seq; next += 1) add(items, others[next]);
  };
  for (const entry of entries) {
    upto(entry.seq);
    items.push({ is: 'entry', key: `m${entry.seq}`, at: entry.at, entry });
  }
  upto(Number.POSITIVE_INFINITY);
  return items;
}

function add(items: Item[], event: LogEvent | undefined): void {
  if (!event) return;
  if (levelOf(event) === 'decision') {
    items.push({ is: 'event', key: `e${event.seq}`, at: event.at, event });
    return;
  }
  const last = items.at(-1);
  if (last?.is === 'burst' && last.agent === event.actor) {
    last.events.push(event);
    last.at = event.at;
    return;
  }
  items.push({ is: 'burst', key: `b${event.seq}`, at: event.at, agent: event.actor, events: [event] });
}

/** `took 2 tasks, changed 3 files, saved 2 checkpoints`. */
export function summary(events: readonly LogEvent[]): string {
  const counts = new Map<string, number>();
  for (const event of events) {
    const word = WORDS[event.kind] ?? 'did %';
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return [...counts].map(([word, count]) => phrase(word, count)).join(', ');
}

const WORDS: Record<string, string> = {
  'task.created': 'asked for % task|s',
  'task.claimed': 'took % task|s',
  'task.started': 'began % task|s',
  'task.completed': 'finished % task|s',
  'task.step_set': 'moved % task|s',
  'task.reserved': 'was given % task|s',
  'task.planned': 'planned % task|s',
  'task.released': 'released % task|s',
  'checkpoint.added': 'saved % checkpoint|s',
  'file.claimed': 'claimed % file|s',
  'file.released': 'released % file|s',
  'file.modified': 'changed % file|s',
  'message.read': 'read messages %|times',
  'message.acked': 'acknowledged messages %|times',
  'agent.registered': 'joined',
  'agent.status_set': 'changed status %|times',
  'document.written': 'wrote % document|s',
  'report.added': 'reported %|times',
  'envelope.received': 'sent % message|s',
  'did %': 'did % other thing|s',
};

function phrase(key: string, count: number): string {
  const word = WORDS[key] ?? key;
  const [head = '', tail = ''] = word.split('|');
  const many = count === 1 ? '' : tail === 'times' ? ` ${count} times` : tail;
  const number = tail === 'times' ? '' : String(count);
  return `${head.replace('%', number).trimEnd()}${many}`.replace(/\s+/g, ' ').trim();
}
