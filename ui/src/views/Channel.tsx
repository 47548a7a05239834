// A channel: what they say, with what they did between folded into lines, threads, and a place to write.

import { useEffect, useMemo, useRef, useState } from 'react';
import { EventList } from '../parts/EventList';
import type { WithMenu } from '../parts/Head';
import { clock, day } from '../parts/time';
import { at, go, usePlace, withQuery } from '../router';
import { useRows } from '../shell/rows';
import { markSeen, seenUpto } from '../shell/seen';
import { type Detail, interleave } from '../store/bursts';
import { asItem, byRoot, type Marked, rootsOf, withMarks } from '../store/conversation';
import { useMayAct, useWorld } from '../store/hooks';
import { runOf } from '../store/instance';
import { ofTask } from '../store/offers';
import { reviewRequests } from '../store/reviews';
import { useStore } from '../store/store';
import { channelTitle, type Entry, MOST_ENTRIES } from '../store/talk';
import type { Task } from '../store/world';
import { ChannelHead } from './ChannelHead';
import { Compose } from './Compose';
import { Burst, EventLine, Message } from './Message';
import { useEntries, useEventsBeside } from './useEntries';

const DETAILS: { name: Detail; title: string }[] = [
  { name: 'talk', title: 'Messages' },
  { name: 'decisions', title: 'Decisions too' },
  { name: 'tasks', title: 'Task changes too' },
  { name: 'all', title: 'All events' },
];

export function ChannelView({ channel, onMenu }: { channel: string } & WithMenu) {
  const place = usePlace();
  const detail = (place.query.get('show') as Detail | null) ?? 'tasks';
  const { entries, loaded, earlier, shift } = useEntries(channel);
  const me = useStore((state) => state.session.person);
  const world = useWorld();
  const mayAct = useMayAct();
  const events = useEventsBeside(channel, entries);
  const newSince = useNewSince(channel, loaded, entries.at(-1)?.seq);
  const replies = useMemo(() => byRoot(entries), [entries]);
  const reviews = useMemo(() => reviewRequests(entries, world.tasks), [entries, world.tasks]);
  const thread = place.query.get('thread');
  const root = entries.find((entry) => entry.id === thread);
  const start = useStart(newSince, place.query.has('seq'), loaded, entries);
  const from = Number(place.query.get('seq') ?? (start === 'new' && entries.length < MOST_ENTRIES ? newSince : undefined) ?? entries[0]?.seq);
  const isMissing = (thread !== null && root === undefined) || from < (entries[0]?.seq ?? 0);
  useEffect(() => {
    if (isMissing) earlier();
  }, [isMissing, entries, earlier]);
  const inThread = useMemo(() => (root ? [root, ...(replies.get(root.id) ?? [])] : []), [root, replies]);
  const items = useMemo(
    () => (root ? inThread.map(asItem) : withMarks(interleave(rootsOf(entries), events, detail), newSince)),
    [root, inThread, entries, events, detail, newSince],
  );
  const compose = useRef<HTMLTextAreaElement>(null);
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const toggle = (key: string) => setOpened((before) => (before.has(key) ? new Set([...before].filter((other) => other !== key)) : new Set([...before, key])));
  const [cursor, setCursor] = useState<string>();
  const [sent, setSent] = useState(0);
  const chosenKey = cursor ?? (place.query.has('seq') ? `m${place.query.get('seq')}` : undefined);
  const indexOf = (key: string | undefined) => (key === undefined ? undefined : items.findIndex((item) => item.key === key));
  const chosen = indexOf(chosenKey);
  // Where the channel opens is in sight, but nothing is chosen by that.
  const wanted = chosenKey ?? (root === undefined ? start : undefined);
  const focus = indexOf(wanted);
  useRows({ count: items.length, chosen: chosen ?? items.length, move: (index) => setCursor(items[index]?.key) }, (deed, index) => {
    const item = items[index];
    if (deed === 'reply' && item?.is === 'entry' && !root) go(withQuery(place, { thread: item.entry.id }));
    else if (deed === 'reply') compose.current?.focus();
    else if (deed === 'open' && item) go(addressOf(item, place.href));
    else if (deed === 'peek' && item) toggle(item.key);
    else if (deed === 'approve') return approve(item === undefined ? entries : item.is === 'entry' ? [item.entry] : []);
    else return false;
    return true;
  });
  const approve = (among: readonly Entry[]) => {
    // Where several wait, one has to be chosen first.
    const waiting = new Set(mayAct ? among.flatMap((entry) => reviews.get(entry.id) ?? []) : []);
    const task = waiting.size === 1 ? [...waiting][0] : undefined;
    const offer = task && ofTask(task, world).find((one) => one.is === 'do' && one.key === 'A');
    if (offer?.is === 'do') offer.run();
    return offer !== undefined;
  };
  return (
    <>
      <ChannelHead channel={channel} onMenu={onMenu} entries={entries} />
      <div className="bar">
        {root
          ? <><a className="chip" href={withQuery(place, { thread: undefined })}>Back to the channel</a><span className="quiet">Thread of {root.name}</span></>
          : <Tabs channel={channel} detail={detail} />}
      </div>
      {items.length === 0
        ? <p className="empty">Nothing was said here yet. Mention an agent with @ to reach its inbox.</p>
        : (
          <EventList
            count={items.length} stamp={items} label={`Messages in ${channelTitle(channel)}`} role="log" onStart={earlier} shift={shift} focus={focus} focusKey={wanted} goToEnd={sent}
            render={(index) => {
              const item = items[index] as Marked;
              return <div key={item.key}><Shown item={item} me={me} replies={replies} reviews={reviews} channel={channel} chosen={index === chosen} inThread={root !== undefined} open={opened.has(item.key)} onToggle={toggle} /></div>;
            }}
          />
        )}
      <Compose key={`${channel} ${root?.id ?? ''}`} channel={channel} thread={inThread} field={compose} onSent={() => setSent((before) => before + 1)} />
    </>
  );
}

function Tabs({ channel, detail }: { channel: string; detail: Detail }) {
  const place = usePlace();
  const { tasks } = useWorld();
  const run = useMemo(() => runOf(channel, tasks), [channel, tasks]);
  const closed = place.query.get('panel') === 'off';
  return (
    <>
      <div className="tabs" role="group" aria-label="What is shown">
        {DETAILS.map(({ name, title }) => (
          <button key={name} type="button" className="tab" {...(detail === name ? { 'aria-current': true } : {})} onClick={() => go(withQuery(place, { show: name === 'tasks' ? undefined : name }), 'replace')}>{title}</button>
        ))}
        <a className="tab" href={at('documents', channel)}>Documents</a>
        {run && <a className="tab narrow" href={at('runs', run)}>Run</a>}
      </div>
      {run && closed && <button type="button" className="chip push" onClick={() => go(withQuery(place, { panel: undefined }), 'replace')}>Show the run</button>}
    </>
  );
}

/** Up to where the person had read when the channel was opened; what is in sight counts as read from then on. */
function useNewSince(channel: string, loaded: boolean, last: number | undefined): number | undefined {
  const log = useStore((state) => state.log);
  const since = useRef<{ log: string; seq: number | undefined }>({ log: '', seq: undefined });
  // Before anything is marked as read here.
  if (log !== since.current.log) since.current = { log, seq: seenUpto(log, channel) };
  useEffect(() => {
    // Before the messages are loaded there is nothing that could have been read.
    if (!log || !loaded || (last !== undefined && document.hidden)) return;
    markSeen(log, channel, last ?? 0);
  }, [loaded, last, channel, log]);
  return since.current.seq;
}

/** Where the channel opens: at what is new since the person was here, if something is, else at the end. */
function useStart(newSince: number | undefined, isAt: boolean, loaded: boolean, entries: readonly Entry[]): 'new' | undefined {
  const me = useStore((state) => state.session.person);
  const start = useRef<'new' | 'end'>(undefined);
  if (start.current === undefined && loaded) {
    const isNew = newSince !== undefined && entries.some((entry) => entry.seq > newSince && entry.from !== `person:${me}`);
    start.current = isNew && !isAt ? 'new' : 'end';
  }
  return start.current === 'new' ? 'new' : undefined;
}

function addressOf(item: Marked, otherwise: string): string {
  switch (item.is) {
    case 'entry': return at('event', item.entry.seq);
    case 'event': return at('event', item.event.seq);
    case 'burst': return at('event', item.events.at(-1)?.seq ?? 1);
    default: return otherwise;
  }
}

interface ShownProps {
  item: Marked; me: string | undefined; replies: Map<string, Entry[]>; reviews: ReadonlyMap<string, Task>; channel: string; chosen: boolean; inThread: boolean; open: boolean; onToggle: (key: string) => void;
}

function Shown({ item, me, replies, reviews, channel, chosen, inThread, open, onToggle }: ShownProps) {
  switch (item.is) {
    case 'entry': return <Message entry={item.entry} me={me} replies={inThread ? [] : (replies.get(item.entry.id) ?? [])} channel={channel} chosen={chosen} inThread={inThread} review={reviews.get(item.entry.id)} />;
    case 'event': return <EventLine event={item.event} chosen={chosen} />;
    case 'burst': return <Burst agent={item.agent} events={item.events} at={item.at} chosen={chosen} open={open} onToggle={() => onToggle(item.key)} />;
    case 'new': return <div className="divider">New since {clock(item.at)}</div>;
    case 'day': return <div className="day">{day(item.at)}</div>;
  }
}
