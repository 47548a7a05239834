// A run as the daemon shows it, read again when something happened in it.

import { path, type Wire } from '../api/client';
import { type Asked, useAsked, useNewest } from '../store/asked';

export function useRun(id: string): Asked<Wire['RunDetail']> {
  const newest = useNewest((event) => event.run === id && (event.kind.startsWith('task.') || event.kind.startsWith('run.')));
  return useAsked<Wire['RunDetail']>(`${path`/clutch/v0/runs/${id}`}?limit=1000`, newest);
}
