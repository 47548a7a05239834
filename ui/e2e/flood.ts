// Many events at once, as one agent sends them.

import type { Daemon } from './daemon';

const BATCH = 500;

/** What a daemon has to be told to take them all. */
export const UNHINDERED = 'envelopes_per_minute = 100000000\n';

/** Sends so many messages, numbered on from `from`. */
export async function flood(daemon: Daemon, from: number, count: number): Promise<void> {
  const ts = new Date().toISOString();
  const messages = Array.from({ length: count }, (_, index) => ({
    v: 'clutch/0.1', id: `flood_${from + index}`, ts, thread_id: 'thr_flood', run_id: 'run_flood', task_id: `task_${(from + index) % 50}`,
    from: { agent_id: 'agent:flood' }, to: [{ agent_id: 'agent:orchestrator' }], type: 'x.flood', payload: { text: `event ${from + index} of many`, index: from + index },
  }));
  for (let at = 0; at < messages.length; at += BATCH) await daemon.call('POST', '/clutch/v0/messages', messages.slice(at, at + BATCH), 'flood');
}

export async function head(daemon: Daemon): Promise<number> {
  return (await daemon.call<{ event_count: number }>('GET', '/status')).event_count;
}
