// What was said in a channel and what happened beside it.

import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { type LogEvent, text } from '../store/event';
import { instanceOfEvent } from '../store/instance';
import { usePast } from '../store/replay';
import { ENTRIES, entries as readEntries, entriesBefore, useStore } from '../store/store';
import { ARCHIVED, channelOf, type Entry, joined, threadOf } from '../store/talk';

const NONE: readonly Entry[] = [];

interface Entries {
  entries: readonly Entry[];
  /** Whether the newest of them were read. */
  loaded: boolean;
  earlier: () => void;
  shift: boolean;
}

/** The entries of a channel as of now, or as of the event that the page looks at. */
export function useEntries(channel: string): Entries {
  const past = usePast();
  const now = useEntriesNow(channel);
  const then = useEntriesThen(channel);
  return past ? then : now;
}

/** Those that the stream brought, and older ones by the page. */
function useEntriesNow(channel: string): Entries {
  const thread = threadOf(channel);
  const entries = useStore((state) => state.talk.get(thread)) ?? NONE;
  const log = useStore((state) => state.log);
  const [shift, setShift] = useState(false);
  const [reads, setReads] = useState(0);
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
      // Whoever wanted still earlier ones meanwhile can have them now.
      setReads((before) => before + 1);
    }
  }, [channel]);
  useEffect(() => {
    if (log === '' || state.current.log === log) return;
    state.current = { loading: false, done: false, log };
    void load(undefined).catch(() => undefined);
  }, [log, load]);
  const first = entries[0]?.at;
  return { entries, loaded: reads > 0, earlier: () => first !== undefined && void load(first).catch(() => undefined), shift };
}

/** Those that the fold of the log has, and older ones by the page. */
function useEntriesThen(channel: string): Entries {
  const past = usePast();
  const at = past?.at;
  const recent = past?.talk.get(threadOf(channel)) ?? NONE;
  const [older, setOlder] = useState<{ at: number | undefined; entries: readonly Entry[] }>({ at: undefined, entries: NONE });
  const loading = useRef(false);
  const entries = useMemo(() => (older.at === at && at !== undefined ? joined(older.entries, recent) : recent), [older, at, recent]);
  const first = entries[0]?.at;
  const earlier = useCallback(() => {
    if (loading.current || at === undefined || first === undefined) return;
    loading.current = true;
    entriesBefore(channel, first)
      .then((found) => found.length > 0 && setOlder((known) => ({ at, entries: known.at === at ? joined(found, known.entries) : found })))
      .catch(() => undefined)
      .finally(() => {
        loading.current = false;
      });
  }, [channel, at, first]);
  return { entries, loaded: past?.loading === undefined, earlier, shift: false };
}

/** The events beside the messages: those of the channel's team, from about where the messages begin. */
export function useEventsBeside(channel: string, entries: readonly Entry[]): LogEvent[] {
  const past = usePast();
  const newest = useStore((state) => state.events);
  const events = past?.events ?? newest;
  const from = entries.length >= ENTRIES ? (entries[0]?.seq ?? 0) : 0;
  return useMemo(() => {
    const span = spanOf(channel, events);
    const isBeside = (event: LogEvent) => event.seq >= Math.max(from, span.from) && event.seq <= span.until;
    return events.filter((event) => isBeside(event) && event.kind !== 'message.sent' && instanceOfEvent(event) === span.of);
  }, [events, channel, from]);
}

/** The channel that a channel shows, and between which events: an archive ends, and what it is of begins, where it was archived. */
function spanOf(channel: string, events: readonly LogEvent[]): { of: string; from: number; until: number } {
  const archived = events.filter((event) => event.kind === ARCHIVED);
  const end = archived.find((event) => text(event.payload, 'archive') === threadOf(channel));
  const of = end ? channelOf(text(end.payload, 'thread') ?? '') : channel;
  const until = end?.seq ?? Infinity;
  const begin = archived.findLast((event) => event.seq < until && text(event.payload, 'thread') === threadOf(of));
  return { of, from: begin?.seq ?? 0, until };
}
