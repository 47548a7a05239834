// The agents as every view shows them: each with its shape, its three ages and what it holds.

import { useMemo } from 'react';
import { agentShape, type Shape } from '../parts/Glyph';
import { useMoment } from '../parts/time';
import { useWorld } from './hooks';
import { usePast } from './replay';
import { useStore } from './store';
import type { Agent } from './world';

export interface Post {
  agent: Agent;
  shape: Shape;
  /** When it last showed a sign of life. Not in the log, so unknown in the past. */
  beat: number | undefined;
  /** The task it works on, by name. */
  task: string | undefined;
  /** How many files it has claimed. */
  claims: number;
}

export function useRoster(): Post[] {
  const { agents, tasks, files } = useWorld();
  const known = useStore((state) => state.beats);
  const past = usePast();
  const moment = useMoment();
  const claims = useMemo(() => {
    const found = new Map<string, number>();
    for (const { claim } of files.values()) if (claim) found.set(claim.holder, (found.get(claim.holder) ?? 0) + 1);
    return found;
  }, [files]);
  return useMemo(
    () => [...agents.values()].map((agent) => {
      const beat = past ? undefined : known.get(agent.id);
      const signs = { beat: beat === undefined ? undefined : moment - beat, event: moment - agent.lastEvent };
      return {
        agent, beat, claims: claims.get(agent.id) ?? 0, shape: agentShape(agent, signs),
        task: agent.currentTask === undefined ? undefined : (tasks.get(agent.currentTask)?.title ?? agent.currentTask),
      };
    }),
    [agents, tasks, claims, known, past, moment],
  );
}
