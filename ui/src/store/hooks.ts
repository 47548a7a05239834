// What views ask for: the world that is looked at, be it now or in the past, and what follows from it.

import { useMemo } from 'react';
import type { Names } from './describe';
import { usePast } from './replay';
import { useStore } from './store';
import type { World } from './world';

/** The world that the page shows. */
export function useWorld(): World {
  const live = useStore((state) => state.world);
  const past = usePast();
  return past?.world ?? live;
}

export function useNames(): Names {
  const { tasks } = useWorld();
  return useMemo(() => ({ task: (id: string) => tasks.get(id)?.title ?? id }), [tasks]);
}

/** Whether this page may act: somebody is signed in, and what it shows is now. */
export function useMayAct(): boolean {
  const person = useStore((state) => state.session.person);
  const past = usePast();
  return person !== undefined && past === undefined;
}
