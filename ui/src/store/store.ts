// The one store of the page: what the log says, folded. Views read it through `useStore`; nothing else keeps state of the team.

import { useSyncExternalStore } from 'react';
import { credential, events as eventPage, get, onStoreFailure, path, type Probed, probe, source, type Wire } from '../api/client';
import { type LogEvent, number, read, text } from './event';
import { Feed, type Link } from './feed';
import { fold } from './fold';
import { pages } from './pages';
import { browserTimers, Rhythm } from './rhythm';
import { Ring } from './ring';
import { ARCHIVED, channelOf, type Entry, joined, listen, type Talk, threadOf } from './talk';
import { fromSnapshot, NOTHING, type World } from './world';

export interface Session {
  /** The person that this page acts as; nobody if it may only read. */
  person: string | undefined;
  /** Whether this page acted as somebody and no longer may: signed out here or elsewhere, or the session expired. */
  ended: boolean;
  /** The people that can be mentioned, as far as the daemon knows them by their credentials. */
  people: readonly string[];
  project: string;
}

export interface Channel {
  name: string;
  messages: number;
  lastAt: number;
  /** The channel that it is an archive of. */
  archiveOf: string | undefined;
}

export interface State {
  link: Link;
  log: string;
  /** The newest event that the page has. */
  head: number;
  perSecond: number;
  world: World;
  events: readonly LogEvent[];
  talk: Talk;
  channels: ReadonlyMap<string, Channel>;
  session: Session;
  /** The newest sign of life of each agent; not in the log, so asked for now and then. */
  beats: ReadonlyMap<string, number>;
  /** What a person has put aside, by the key of the matter. */
  acknowledged: ReadonlySet<string>;
  /** The last word of the router on each task that it was asked about. */
  routings: ReadonlyMap<string, LogEvent>;
  /** Messages that wait for a person's decision. */
  held: readonly Wire['HeldMessage'][];
  ready: boolean;
  /** Why the store takes no writes, if so. */
  readOnly: Probed | undefined;
}

const MOST_EVENTS = 20_000;
/** What the page begins with, and what it reads once that is shown: of a log of this length, all. */
const FIRST_PAGE = 300;
const SECOND_PAGE = 1000;
/** How many channels are read before somebody looks at them, and how many entries a page has. */
const READ_AHEAD = 5;
export const ENTRIES = 100;
const BEATS_MILLIS = 10_000;
/** How often the page asks whether the store can be written, and how often while it cannot. */
const PROBE_MILLIS = 15_000;
const RECOVERY_PROBE_MILLIS = 3_000;

export const ACKNOWLEDGED = 'x.attention.acknowledged';

const ring = new Ring(MOST_EVENTS);
let waiting: LogEvent[] = [];
const listeners = new Set<() => void>();

let state: State = {
  link: { is: 'connecting' },
  log: '',
  head: 0,
  perSecond: 0,
  world: NOTHING,
  events: [],
  talk: new Map(),
  channels: new Map(),
  session: { person: undefined, ended: false, people: [], project: '' },
  beats: new Map(),
  acknowledged: new Set(),
  routings: new Map(),
  held: [],
  ready: false,
  readOnly: undefined,
};

function change(next: Partial<State>): void {
  state = { ...state, ...next };
  for (const listener of listeners) listener();
}

export function useStore<T>(select: (state: State) => T): T {
  return useSyncExternalStore(subscribe, () => select(state));
}

export function current(): State {
  return state;
}

export function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const rhythm = new Rhythm(flush, browserTimers);

function flush(): void {
  const events = waiting;
  waiting = [];
  ring.push(events);
  change({
    world: fold(state.world, events),
    events: ring.all,
    talk: listen(state.talk, events),
    channels: counted(state.channels, events),
    head: Math.max(state.head, events.at(-1)?.seq ?? 0),
    perSecond: rhythm.perSecond(),
    acknowledged: putAside(state.acknowledged, events),
    routings: routed(state.routings, events),
  });
  if (events.some((event) => HOLDS.has(event.kind))) void held();
}

const HOLDS = new Set(['message.held', 'message.released', 'message.discarded']);

/** Reads what is held for a person, if there is one to read it. */
async function held(): Promise<void> {
  if (state.session.person === undefined) return;
  const found = await get<Wire['HeldMessage'][]>('/admin/messages/held').catch(() => undefined);
  if (found) change({ held: found });
}

const feed = new Feed<Wire['StateSnapshot']>(
  source,
  {
    began(snapshot) {
      waiting = [];
      ring.clear();
      if (snapshot.log !== state.log) pages.clear();
      const world = fromSnapshot(snapshot.state, snapshot.seq);
      change({ world, log: snapshot.log, head: snapshot.seq, events: [], ready: true, beats: beatsOf(snapshot.state.agents) });
      void earlier(FIRST_PAGE).then(() => earlier(SECOND_PAGE)).catch(() => undefined);
      void channels();
      void session();
      void acknowledgements();
    },
    arrived(events) {
      waiting.push(...events);
      rhythm.came(events.length);
    },
    linked: (link) => change({ link }),
  },
  { now: () => Date.now(), after: (millis, run) => void setTimeout(run, millis) },
);

/** Signed in: everything is read again, and followed, as that person. */
export async function signedIn(): Promise<void> {
  await session();
  feed.restart();
}

/** Signed out, by this page, by another browser or by time. */
export function signedOut(): void {
  const secret = credential.get();
  if (secret !== undefined) return credential.reject(secret);
  change({ session: { ...state.session, person: undefined, ended: true }, held: [] });
}

export function start(): void {
  credential.onRejected(signedOut);
  onStoreFailure(() => void health());
  void healthFromNowOn();
  void feed.start();
  setInterval(() => void beats(), BEATS_MILLIS);
  setInterval(() => {
    const perSecond = rhythm.perSecond();
    if (perSecond !== state.perSecond) change({ perSecond });
  }, 1000);
}

/** Reads a page of events before those that the page has. Tells whether there were any. */
export async function earlier(count: number): Promise<boolean> {
  const before = ring.first ?? state.head + 1;
  const after = Math.max(0, before - 1 - count);
  if (before <= 1) return false;
  const now = Date.now();
  const rows = (await eventPage(after, Math.min(count, before - 1 - after))).filter((row) => row.seq < before);
  const events = rows.map((row) => read(row, now));
  ring.unshift(events);
  change({
    events: ring.all,
    world: { ...state.world, agents: active(state.world.agents, events) },
    routings: new Map([...routed(new Map(), events), ...state.routings]),
  });
  return events.length > 0;
}

/** When agents last did something, as far as earlier events tell. */
function active(agents: World['agents'], events: readonly LogEvent[]): World['agents'] {
  const next = new Map(agents);
  for (const event of events) {
    const agent = next.get(event.actor);
    if (agent && agent.lastEvent < event.at) next.set(agent.id, { ...agent, lastEvent: event.at });
  }
  return next;
}

let asked = 0;

/** Who is signed in. An answer that comes after that to a later question is of the past, such as of before the cookie. */
export async function session(): Promise<void> {
  asked += 1;
  const mine = asked;
  const found = await get<Wire['SessionInfo']>('/session').catch(() => undefined);
  if (!found || mine !== asked) return;
  const person = found.person ?? undefined;
  change({ session: { person, ended: state.session.ended && person === undefined, people: found.people, project: found.project } });
  await held();
}

export async function channels(): Promise<void> {
  const found = await get<Wire['ChannelInfo'][]>('/channels').catch(() => []);
  const next = new Map(state.channels);
  for (const channel of found) {
    next.set(channel.name, { name: channel.name, messages: channel.messages, lastAt: channel.last_at ?? 0, archiveOf: channel.archive_of ?? undefined });
  }
  if (!next.has('default')) next.set('default', { name: 'default', messages: 0, lastAt: 0, archiveOf: undefined });
  change({ channels: next });
  // What mentions the person must be known wherever the page begins.
  const newest = [...next.values()].filter((channel) => channel.messages > 0).sort((a, b) => b.lastAt - a.lastAt);
  await Promise.all(newest.slice(0, READ_AHEAD).map(({ name }) => entries(name).catch(() => [])));
}

/** Reads the newest entries of a channel, or those before a time. */
export async function entriesBefore(channel: string, before?: number): Promise<Entry[]> {
  const query = before === undefined ? '' : `&before=${before}`;
  const found = await get<Wire['ChannelEntry'][]>(`${path`/channels/${channel}/messages`}?limit=${ENTRIES}${query}`);
  return found.map((entry) => fromWire(entry, threadOf(channel)));
}

/** Reads the newest entries of a channel, or those before a time, into the store. Returns what was found. */
export async function entries(channel: string, before?: number): Promise<Entry[]> {
  const read = await entriesBefore(channel, before);
  const thread = threadOf(channel);
  change({ talk: new Map([...state.talk, [thread, joined(state.talk.get(thread) ?? [], read)]]) });
  return read;
}

function fromWire(entry: Wire['ChannelEntry'], thread: string): Entry {
  return {
    id: entry.id, seq: entry.seq, at: entry.at, thread, from: entry.from, name: entry.name, text: entry.text,
    mentions: entry.mentions, people: entry.people, unknown: entry.unknown, to: entry.to, priority: entry.priority,
    replyTo: entry.reply_to ?? undefined, acked: [],
  };
}

let probing = false;

/** Asks whether the store can be written. Failures that come meanwhile ask no second time. */
async function health(): Promise<void> {
  if (probing) return;
  probing = true;
  const readOnly = await probe();
  probing = false;
  if (readOnly?.message !== state.readOnly?.message) change({ readOnly });
}

async function healthFromNowOn(): Promise<void> {
  if (!document.hidden) await health();
  setTimeout(() => void healthFromNowOn(), state.readOnly === undefined ? PROBE_MILLIS : RECOVERY_PROBE_MILLIS);
}

async function beats(): Promise<void> {
  if (document.hidden || state.link.is !== 'live') return;
  const agents = await get<Wire['Agent'][]>('/agents').catch(() => undefined);
  if (agents) change({ beats: beatsOf(agents) });
}

function beatsOf(agents: Wire['Agent'][]): ReadonlyMap<string, number> {
  return new Map(agents.map((agent) => [agent.id, agent.last_heartbeat]));
}

async function acknowledgements(): Promise<void> {
  const found = await get<Wire['ProtocolEvent'][]>(`/events?action=${ACKNOWLEDGED}&limit=1000`).catch(() => []);
  const keys = found.map((event) => event.metadata['of']).filter((key): key is string => typeof key === 'string');
  change({ acknowledged: new Set([...state.acknowledged, ...keys]) });
}

function putAside(known: ReadonlySet<string>, events: readonly LogEvent[]): ReadonlySet<string> {
  const keys = events
    .filter((event) => event.kind === 'report.added' && text(event.payload, 'action') === ACKNOWLEDGED)
    .map((event) => (event.payload['metadata'] as { of?: unknown } | undefined)?.of)
    .filter((key): key is string => typeof key === 'string');
  return keys.length === 0 ? known : new Set([...known, ...keys]);
}

function counted(known: ReadonlyMap<string, Channel>, events: readonly LogEvent[]): ReadonlyMap<string, Channel> {
  let next: Map<string, Channel> | undefined;
  for (const event of events) {
    const entry = event.kind === 'message.sent' && text(event.payload, 'form') === 'entry';
    if (!entry && event.kind !== ARCHIVED) continue;
    next ??= new Map(known);
    const name = channelOf(text(event.payload, 'thread') ?? '');
    const before = next.get(name);
    if (entry) next.set(name, { name, messages: (before?.messages ?? 0) + 1, lastAt: event.at, archiveOf: before?.archiveOf });
    else {
      const archive = channelOf(text(event.payload, 'archive') ?? '');
      next.set(name, { name, messages: 0, lastAt: before?.lastAt ?? 0, archiveOf: undefined });
      next.set(archive, { name: archive, messages: number(event.payload, 'messages') ?? 0, lastAt: before?.lastAt ?? 0, archiveOf: name });
    }
  }
  return next ?? known;
}

function routed(known: ReadonlyMap<string, LogEvent>, events: readonly LogEvent[]): ReadonlyMap<string, LogEvent> {
  const decisions = events.filter((event) => event.kind === 'routing.decided' || event.kind === 'routing.failed');
  if (decisions.length === 0) return known;
  const next = new Map(known);
  for (const event of decisions) {
    if (event.task) next.set(event.task, event);
  }
  return next;
}
