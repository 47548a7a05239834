// Everything that the log says about one task or one file, whether or not the page has it.

import { useMemo } from 'react';
import type { Wire } from '../api/client';
import { useAsked, useNewest } from './asked';
import { pathOf } from './describe';
import { fromProtocol, type LogEvent, type Placed, read, text } from './event';
import { usePast } from './replay';

export function useTaskHistory(task: string): LogEvent[] {
  const newest = useNewest((event) => event.task === task || text(event.payload, 'task') === task);
  const { value } = useAsked<{ messages: Placed[] }>(task === '' ? undefined : `/clutch/v0/messages?task_id=${encodeURIComponent(task)}&limit=1000`, newest);
  return useUpto(useMemo(() => (value?.messages ?? []).map((row) => read(row, Date.now())), [value]));
}

export function useFileHistory(path: string): LogEvent[] {
  const newest = useNewest((event) => event.kind.startsWith('file.') && pathOf(event.payload) === path);
  const { value } = useAsked<Wire['ProtocolEvent'][]>(path === '' ? undefined : `/events?resource=${encodeURIComponent(path)}&limit=200`, newest);
  return useUpto(useMemo(() => (value ?? []).map(fromProtocol).reverse(), [value]));
}

/** What an agent did last, and what became of it. */
export function useAgentHistory(agent: string): LogEvent[] {
  const newest = useNewest((event) => event.actor === agent || text(event.payload, 'agent') === agent);
  const { value } = useAsked<Wire['ProtocolEvent'][]>(agent === '' ? undefined : `/events?agent_id=${encodeURIComponent(agent)}&limit=100`, newest);
  return useUpto(useMemo(() => (value ?? []).map(fromProtocol).reverse(), [value]));
}

/** One event by its number; none until it was read. */
export function useEvent(seq: number | undefined): LogEvent[] {
  const { value } = useAsked<{ messages: Placed[] }>(seq === undefined ? undefined : `/clutch/v0/messages?after=${seq - 1}&limit=1`);
  return useUpto(useMemo(() => (value?.messages ?? []).map((row) => read(row, Date.now())).filter((event) => event.seq === seq), [value, seq]));
}

/** Without what came later, if the page shows the past. */
function useUpto(events: LogEvent[]): LogEvent[] {
  const upto = usePast()?.at;
  return useMemo(() => (upto === undefined ? events : events.filter((event) => event.seq <= upto)), [events, upto]);
}
