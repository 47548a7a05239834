// What an event says, word by word and as it stands in the log.

import type { LogEvent } from '../store/event';

const LONGEST = 40_000;

export function Payload({ event }: { event: LogEvent }) {
  const text = JSON.stringify(event.payload, null, 2);
  return <pre tabIndex={0}>{text.slice(0, LONGEST)}{text.length > LONGEST && `\n… and ${(text.length - LONGEST).toLocaleString()} more characters`}</pre>;
}
