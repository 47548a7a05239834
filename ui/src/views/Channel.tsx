// A channel: what they say, with what they did between folded into lines, threads, and a place to write.

import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { EventList } from '../parts/EventList';
import { Face } from '../parts/Face';
import { Head, type WithMenu } from '../parts/Head';
import { at, go, usePlace, withQuery } from '../router';
import { markSeen, seenUpto } from '../shell/seen';
import { useDeeds } from '../shell/keys';
import { type Detail, interleave, type Item } from '../store/bursts';
import { useWorld } from '../store/hooks';
import { usePast } from '../store/replay';
import { ENTRIES, entries as readEntries, useStore } from '../store/store';
import { channelTitle, type Entry, threadOf } from '../store/talk';
import type { Task } from '../store/world';
import { Compose } from './Compose';
import { Burst, EventLine, Message } from './Message';
import { Progress } from './Progress';

const DETAILS: { name: Detail; title: string }[] = [
  { name: 'talk', title: 'Messages' },
  { name: 'decisions', title: 'Decisions too' },
  { name: 'tasks', title: 'Task changes too' },
  { name: 'all', title: 'All events' },
];

export function ChannelView({ channel, onMenu }: { channel: string } & WithMenu) {
  const place = usePlace();
  const detail = (place.query.get('show') as Detail | null) ?? 'tasks';
  const wanted = Number(place.query.get('seq') ?? Number.NaN);
  const thread = place.query.get('thread') ?? undefined;
  const { entries, earlier, shift } = useEntries(channel);
  const me = useStore((state) => state.session.person);
  const log = useStore((state) => state.log);
  const past = usePast();
  const events = useEvents(channel, entries);
  const [newSince] = useState(() => seenUpto(log, channel));
  const shown = useMemo(() => entries.filter((entry) => past === undefined || entry.seq <= past.at), [entries, past]);
  const roots = useMemo(() => shown.filter((entry) => entry.replyTo === undefined || !shown.some((other) => other.id === entry.replyTo)), [shown]);
  const replies = useMemo(() => byRoot(shown), [shown]);
  const root = thread === undefined ? undefined : shown.find((entry) => entry.id === thread);
  const items = useMemo(
    () => (root ? [root, ...(replies.get(root.id) ?? [])].map(asItem) : withMarks(interleave(roots, past ? [] : events, detail), newSince)),
    [root, roots, replies, events, detail, newSince, past],
  );
  const last = entries.at(-1)?.seq;
  useEffect(() => {
    if (last !== undefined && !document.hidden && log) markSeen(log, channel, last);
    else if (last === undefined && log) markSeen(log, channel, 0);
  }, [last, channel, log]);
  const compose = useRef<HTMLTextAreaElement>(null);
  useDeeds((deed) => {
    if (deed !== 'reply') return false;
    compose.current?.focus();
    return true;
  });
  const focus = Number.isFinite(wanted) ? `m${wanted}` : undefined;
  return (
    <>
      <ChannelHead channel={channel} onMenu={onMenu} entries={entries} />
      <div className="bar">
        {root
          ? <><a className="chip" href={withQuery(place, { thread: undefined })}>Back to the channel</a><span className="quiet">Thread of {root.name}</span></>
          : (
            <div className="tabs" role="group" aria-label="What is shown">
              {DETAILS.map(({ name, title }) => (
                <button key={name} type="button" className="tab" {...(detail === name ? { 'aria-current': true } : {})} onClick={() => go(withQuery(place, { show: name === 'tasks' ? undefined : name }), 'replace')}>{title}</button>
              ))}
              <a className="tab" href={at('documents', channel)}>Documents</a>
            </div>
          )}
      </div>
      {items.length === 0
        ? <p className="empty">Nothing was said here yet. Mention an agent with @ to reach its inbox.</p>
        : (
          <EventList
            rows={items} keyOf={(item) => item.key} label={`Messages in ${channelTitle(channel)}`} role="log" onStart={earlier} shift={shift} focus={focus}
            render={(item) => <Shown item={item} me={me} replies={replies} channel={channel} chosen={item.key === focus} inThread={root !== undefined} />}
          />
        )}
      <Compose channel={channel} replyTo={root} field={compose} />
    </>
  );
}

/** The entries of a channel: those that the stream brought, and older ones by the page. */
function useEntries(channel: string): { entries: readonly Entry[]; earlier: () => void; shift: boolean } {
  const thread = threadOf(channel);
  const entries = useStore((state) => state.talk.get(thread)) ?? NONE;
  const log = useStore((state) => state.log);
  const [shift, setShift] = useState(false);
  const state = useRef<{ loading: boolean; done: boolean; log: string }>({ loading: false, done: false, log: '' });
  const load = useCallback(async (before: number | undefined) => {
    if (state.current.loading || state.current.done) return;
    state.current.loading = true;
    try {
      if (before !== undefined) setShift(true);
      const found = await readEntries(channel, before);
      state.current.done = found.length < ENTRIES;
      requestAnimationFrame(() => setShift(false));
    } finally {
      state.current.loading = false;
    }
  }, [channel]);
  useEffect(() => {
    if (log === '' || state.current.log === log) return;
    state.current = { loading: false, done: false, log };
    void load(undefined).catch(() => undefined);
  }, [log, load]);
  const first = entries[0]?.at;
  return { entries, earlier: () => first !== undefined && void load(first).catch(() => undefined), shift };
}

const NONE: readonly Entry[] = [];

/** The events beside the messages: those of the channel's run, from about where the messages begin. */
function useEvents(channel: string, entries: readonly Entry[]) {
  const events = useStore((state) => state.events);
  const run = `run_${channel}`;
  const from = entries.length >= ENTRIES ? (entries[0]?.seq ?? 0) : 0;
  return useMemo(() => events.filter((event) => event.run === run && event.seq >= from && event.kind !== 'message.sent'), [events, run, from]);
}

function byRoot(entries: readonly Entry[]): Map<string, Entry[]> {
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

type Marked = Item | { is: 'new'; key: string; at: number } | { is: 'day'; key: string; at: number };

const asItem = (entry: Entry): Marked => ({ is: 'entry', key: `m${entry.seq}`, at: entry.at, entry });

/** Puts in where a day begins, and what is new since the person was here last. */
function withMarks(items: Item[], newSince: number | undefined): Marked[] {
  const marked: Marked[] = [];
  let told = newSince === undefined;
  let before: number | undefined;
  for (const item of items) {
    if (before !== undefined && new Date(before).toDateString() !== new Date(item.at).toDateString()) {
      marked.push({ is: 'day', key: `d${item.key}`, at: item.at });
    }
    before = item.at;
    if (!told && item.is === 'entry' && item.entry.seq > (newSince ?? 0)) {
      told = true;
      marked.push({ is: 'new', key: 'new', at: item.at });
    }
    marked.push(item);
  }
  return marked;
}

interface ShownProps { item: Marked; me: string | undefined; replies: Map<string, Entry[]>; channel: string; chosen: boolean; inThread: boolean }

function Shown({ item, me, replies, channel, chosen, inThread }: ShownProps) {
  switch (item.is) {
    case 'entry': return <Message entry={item.entry} me={me} replies={inThread ? [] : (replies.get(item.entry.id) ?? [])} channel={channel} chosen={chosen} inThread={inThread} />;
    case 'event': return <EventLine event={item.event} />;
    case 'burst': return <Burst agent={item.agent} events={item.events} at={item.at} />;
    case 'new': return <div className="divider">New since you were here</div>;
    case 'day': return <div className="day">{new Date(item.at).toLocaleDateString(undefined, { weekday: 'long', day: 'numeric', month: 'long' })}</div>;
  }
}

function ChannelHead({ channel, onMenu, entries }: { channel: string; entries: readonly Entry[] } & WithMenu) {
  const { tasks } = useWorld();
  const run = `run_${channel}`;
  const own: Task[] = useMemo(() => [...tasks.values()].filter((task) => task.run === run), [tasks, run]);
  const speakers = useMemo(() => [...new Set([...entries].reverse().map((entry) => entry.from))], [entries]);
  return (
    <Head title={`# ${channelTitle(channel)}`} note={channel === 'default' ? 'The project' : undefined} onMenu={onMenu}>
      <span className="push" />
      {own.length > 0 && <Progress tasks={own} />}
      <div className="faces" role="img" aria-label={`Spoke here: ${speakers.slice(0, 8).join(', ')}`}>
        {speakers.slice(0, 4).map((id) => <Face key={id} id={id} />)}
        {speakers.length > 4 && <span className="more">+{speakers.length - 4}</span>}
      </div>
    </Head>
  );
}
