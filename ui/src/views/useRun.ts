// A run as the daemon shows it, read again when something happened in it.

import { useEffect, useState } from 'react';
import { get, path, type Wire } from '../api/client';
import { useStore } from '../store/store';

const PAUSE = 1500;

export function useRun(id: string): { run: Wire['RunDetail'] | undefined; fault: string | undefined } {
  const newest = useStore((state) => lastOf(state.events, id));
  const [run, setRun] = useState<Wire['RunDetail']>();
  const [fault, setFault] = useState<string>();
  useEffect(() => {
    let wanted = true;
    // Much may happen in a run: ask once for all that happens in a while.
    const timer = setTimeout(() => {
      whole(id)
        .then((found) => wanted && (setRun(found), setFault(undefined)))
        .catch((error: unknown) => wanted && setFault(error instanceof Error ? error.message : 'no answer'));
    }, run === undefined ? 0 : PAUSE);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [id, newest]);
  return { run, fault };
}

async function whole(id: string): Promise<Wire['RunDetail']> {
  return get<Wire['RunDetail']>(`${path`/clutch/v0/runs/${id}`}?limit=1000`);
}

function lastOf(events: readonly { seq: number; run: string; kind: string }[], run: string): number {
  for (let index = events.length - 1; index >= 0; index -= 1) {
    const event = events[index];
    if (event?.run === run && (event.kind.startsWith('task.') || event.kind.startsWith('run.'))) return event.seq;
  }
  return 0;
}
