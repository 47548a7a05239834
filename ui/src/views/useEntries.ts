// What was said in a channel and what happened beside it.

import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import type { LogEvent } from '../store/event';
import { instanceOfEvent } from '../store/instance';
import { usePast } from '../store/replay';
import { ENTRIES, entries as readEntries, useStore } from '../store/store';
import { type Entry, threadOf } from '../store/talk';

const NONE: readonly Entry[] = [];

/** The entries of a channel: those that the stream brought, and older ones by the page. */
export function useEntries(channel: string): { entries: readonly Entry[]; earlier: () => void; shift: boolean } {
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

/** The events beside the messages: those of the channel's team, from about where the messages begin. */
export function useEventsBeside(channel: string, entries: readonly Entry[]): LogEvent[] {
  const events = useStore((state) => state.events);
  const upto = usePast()?.at ?? Number.POSITIVE_INFINITY;
  const from = entries.length >= ENTRIES ? (entries[0]?.seq ?? 0) : 0;
  return useMemo(
    () => events.filter((event) => event.seq >= from && event.seq <= upto && event.kind !== 'message.sent' && instanceOfEvent(event) === channel),
    [events, channel, from, upto],
  );
}
