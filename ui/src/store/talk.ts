// What was said, by channel: entries as the log has them, the newest so many of each.

import { type LogEvent, number, object, type Payload, text, texts } from './event';

export interface Entry {
  id: string;
  seq: number;
  at: number;
  thread: string;
  /** The author's full id: an agent, `person:anna` or `system`. */
  from: string;
  name: string;
  text: string;
  mentions: string[];
  /** People that it names or answers, by name; `person` stands for all of them. */
  people: string[];
  /** Named, but neither agents nor people; in older entries people are among them. */
  unknown: string[];
  to: string[];
  priority: string;
  replyTo: string | undefined;
  /** Who has acknowledged it, as far as this page has seen. */
  acked: string[];
}

export type Talk = ReadonlyMap<string, readonly Entry[]>;

export const MOST_ENTRIES = 500;

export function entryOf(event: LogEvent): Entry | undefined {
  const { payload } = event;
  if (event.kind !== 'message.sent' || text(payload, 'form') !== 'entry') return undefined;
  return entryFrom(payload, event.seq, number(payload, 'at') ?? event.at);
}

export function entryFrom(payload: Payload, seq: number, at: number): Entry {
  const to = object(payload, 'to');
  return {
    id: text(payload, 'message') ?? '',
    seq,
    at,
    thread: text(payload, 'thread') ?? '',
    from: text(payload, 'from') ?? '',
    name: text(payload, 'name') ?? '',
    text: text(payload, 'text') ?? '',
    mentions: texts(payload, 'mentions'),
    people: texts(payload, 'people'),
    unknown: texts(payload, 'unknown'),
    to: texts(to, 'agents'),
    priority: text(payload, 'priority') ?? 'normal',
    replyTo: text(payload, 'reply_to'),
    acked: [],
  };
}

/** Adds what events say to what was said. Channels that nothing was said in are shared with the talk before. */
export function listen(talk: Talk, events: readonly LogEvent[]): Talk {
  let next: Map<string, readonly Entry[]> | undefined;
  const own = () => (next ??= new Map(talk));
  for (const event of events) {
    const entry = entryOf(event);
    if (entry) own().set(entry.thread, joined((next ?? talk).get(entry.thread) ?? [], [entry]));
    if (event.kind === 'message.acked') acknowledge(own(), event);
    if (event.kind === ARCHIVED) archive(own(), event);
  }
  return next ?? talk;
}

/** The entries of a channel until now are shown in another one. */
export const ARCHIVED = 'channel.archived';

function archive(talk: Map<string, readonly Entry[]>, { payload }: LogEvent): void {
  const thread = text(payload, 'thread') ?? '';
  const to = text(payload, 'archive') ?? '';
  const until = number(payload, 'until') ?? 0;
  const entries = talk.get(thread) ?? [];
  talk.set(thread, entries.filter((entry) => entry.at > until));
  talk.set(to, entries.filter((entry) => entry.at <= until).map((entry) => ({ ...entry, thread: to })));
}

/** Entries of one channel with others, each once, in order, and the newest of them. */
export function joined(some: readonly Entry[], others: readonly Entry[]): readonly Entry[] {
  const last = some.at(-1);
  const first = others[0];
  if (!first) return some;
  // What follows on needs no sorting, and nearly everything does.
  if (!last || first.seq > last.seq) return [...some, ...others].slice(-MOST_ENTRIES);
  const bySeq = new Map([...others, ...some].map((entry) => [entry.seq, entry]));
  return [...bySeq.values()].sort((a, b) => a.seq - b.seq);
}

function acknowledge(talk: Map<string, readonly Entry[]>, event: LogEvent): void {
  const agent = text(event.payload, 'agent');
  const messages = new Set(texts(event.payload, 'messages'));
  if (!agent || messages.size === 0) return;
  for (const [thread, entries] of talk) {
    if (!entries.some((entry) => messages.has(entry.id))) continue;
    talk.set(
      thread,
      entries.map((entry) => (messages.has(entry.id) ? { ...entry, acked: [...entry.acked, agent] } : entry)),
    );
  }
}

/** `thr_pr-1` is the channel `pr-1`; the default one is called general. */
export function channelOf(thread: string): string {
  return thread.startsWith('thr_') ? thread.slice(4) : thread;
}

export function threadOf(channel: string): string {
  return `thr_${channel}`;
}

export function channelTitle(channel: string): string {
  return channel === 'default' ? 'general' : channel;
}

/** The name without its instance: `coder@pr-1` is `coder`. */
export function bare(name: string): string {
  const at = name.indexOf('@', 1);
  return at === -1 ? name : name.slice(0, at);
}

/** Mentioned so, every person is. */
export const ANY_PERSON = 'person';

/** Whether an entry is for a person of this name. */
export function isFor(entry: Entry, person: string): boolean {
  if (entry.people.includes(person) || entry.people.includes(ANY_PERSON)) return true;
  // Also if an agent that joined before the name was a person's has it.
  return [...entry.unknown, ...entry.to].some((name) => bare(name) === person) || entry.to.includes(`person:${person}`);
}
