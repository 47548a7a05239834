// What only the daemon can tell: asked for, and asked again when something happened that may have changed it.

import { useEffect, useState } from 'react';
import { get } from '../api/client';
import type { LogEvent } from './event';
import { useStore } from './store';

const PAUSE = 1500;

export interface Asked<T> { value: T | undefined; fault: string | undefined }

/** Without a path nothing is asked. Much may happen at once: what happens within a while is asked about once. */
export function useAsked<T>(path: string | undefined, newest: number | string = 0): Asked<T> {
  const [found, setFound] = useState<Asked<T> & { path: string }>();
  const here = found?.path === path ? found : undefined;
  useEffect(() => {
    if (path === undefined) return;
    let wanted = true;
    const timer = setTimeout(() => {
      get<T>(path)
        .then((value) => wanted && setFound({ path, value, fault: undefined }))
        .catch((error: unknown) => wanted && setFound({ path, value: undefined, fault: error instanceof Error ? error.message : 'no answer' }));
    }, here === undefined ? 0 : PAUSE);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [path, newest]);
  return { value: here?.value, fault: here?.fault };
}

/** The newest event of a kind, by number. */
export function useNewest(is: (event: LogEvent) => boolean): number {
  return useStore((state) => state.events.findLast(is)?.seq ?? 0);
}
