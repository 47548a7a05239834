// What needs the person, as the page stands: now, or as far as it was known at the event that is looked at.

import { useMemo } from 'react';
import { type Matter, matters, type Quiet } from './attention';
import { useWorld } from './hooks';
import { type Past, usePast } from './replay';
import { useRoster } from './roster';
import { type State, useStore } from './store';

export function useMatters(): Matter[] {
  const world = useWorld();
  const past = usePast();
  const talk = useStore((state) => state.talk);
  const session = useStore((state) => state.session);
  const acknowledged = useStore((state) => state.acknowledged);
  const routings = useStore((state) => state.routings);
  const held = useStore((state) => state.held);
  const quiet = useQuiet();
  return useMemo(
    () => matters({ world, session, acknowledged, quiet, ...then({ talk, routings, held }, past) }),
    [world, talk, session, acknowledged, routings, held, quiet, past],
  );
}

/** Without what came later. */
function then(known: Pick<State, 'talk' | 'routings' | 'held'>, past: Past | undefined): Pick<State, 'talk' | 'routings' | 'held'> {
  if (!past) return known;
  return { talk: past.talk, routings: new Map([...known.routings].filter(([, event]) => event.seq <= past.at)), held: [] };
}

/** Agents that show too little of themselves; the same list for as long as they are the same. */
function useQuiet(): readonly Quiet[] {
  const found = useRoster().flatMap(({ agent, shape, beat, claims }): Quiet[] => {
    if (shape !== 'stale' && shape !== 'silent') return [];
    return [{ id: agent.id, shape, since: shape === 'stale' ? (beat ?? agent.since) : agent.lastEvent, claims }];
  });
  const told = JSON.stringify(found);
  return useMemo(() => found, [told]);
}
