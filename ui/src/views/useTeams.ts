// The teams that runners run.

import type { Wire } from '../api/client';
import { useAsked, useNewest } from '../store/asked';

export function useTeams(): Wire['TeamView'][] {
  const newest = useNewest((event) => event.kind.startsWith('team.') || event.kind.startsWith('turn.'));
  return useAsked<Wire['Teams']>('/teams', newest).value?.teams ?? [];
}

/** The team that a runner runs an agent in, if one does right now. */
export function useTeamOf(agent: string): { team: Wire['TeamView']; member: Wire['TeamAgent'] } | undefined {
  for (const team of useTeams()) {
    const member = team.live ? team.agents.find((entry) => entry.id === agent) : undefined;
    if (member) return { team, member };
  }
  return undefined;
}
