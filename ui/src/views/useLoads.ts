// How much agents may have at once, and how much waits in their inboxes.

import { useMemo } from 'react';
import type { Wire } from '../api/client';
import { useAsked, useNewest } from '../store/asked';
import { plain } from '../store/event';

export interface Load { most: number | undefined; inbox: number }

export function useLoads(): (agent: string) => Load {
  const joined = useNewest((event) => event.kind.startsWith('agent.'));
  const mailed = useNewest((event) => event.kind.startsWith('message.'));
  const { value: cards } = useAsked<Wire['AgentCards']>('/clutch/v0/agents', joined);
  const { value: waiting } = useAsked<Wire['Deliveries']>('/clutch/v0/deliveries?state=pending&limit=1000', mailed);
  return useMemo(() => {
    const most = new Map((cards?.agents ?? []).map((card) => [plain(card.agent_id), card.limits?.max_concurrency ?? undefined]));
    const inbox = new Map<string, number>();
    for (const { agent_id } of waiting?.deliveries ?? []) inbox.set(plain(agent_id), (inbox.get(plain(agent_id)) ?? 0) + 1);
    return (agent) => ({ most: most.get(agent), inbox: inbox.get(agent) ?? 0 });
  }, [cards, waiting]);
}
