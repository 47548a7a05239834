import { type LogEvent, type Placed, read } from '../src/store/event';
import type { Daemon } from './daemon';

/** The whole log, as the page reads it. */
export async function events(daemon: Daemon): Promise<LogEvent[]> {
  const all: LogEvent[] = [];
  for (;;) {
    const after = all.at(-1)?.seq ?? 0;
    const { messages } = await daemon.call<{ messages: Placed[] }>('GET', `/clutch/v0/messages?after=${after}&limit=1000`);
    if (messages.length === 0) return all;
    all.push(...messages.map((row) => read(row, Date.now())));
  }
}
