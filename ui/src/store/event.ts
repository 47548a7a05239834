// An event of the log as the UI keeps it: the daemon's envelope, read once and flattened.

/** One row of the stream: `{seq, message}`, and in pages also when it came. */
export interface Placed {
  seq: number;
  received_at?: string;
  message: Envelope;
}

export interface Envelope {
  id: string;
  ts: string;
  type: string;
  run_id: string;
  thread_id: string;
  task_id: string | null;
  from: { agent_id: string; role?: string };
  to: { agent_id: string }[];
  payload: Payload;
  meta?: { kind?: string; cause?: number | null; auth?: string; via?: string | null };
}

/** What a fact says. Agents wrote parts of it, so nothing in it can be relied on to be there or to be of a type. */
export type Payload = Record<string, unknown>;

export interface LogEvent {
  seq: number;
  /** Epoch milliseconds. */
  at: number;
  /** The kind of fact; `envelope.received` for what came in as a message of the protocol. */
  kind: string;
  type: string;
  actor: string;
  auth: string;
  run: string;
  thread: string;
  task: string | null;
  cause: number | null;
  payload: Payload;
}

export const RECEIVED = 'envelope.received';

export function read(placed: Placed, now: number): LogEvent {
  const { message } = placed;
  const stamped = Date.parse(placed.received_at ?? message.ts);
  return {
    seq: placed.seq,
    // What a sender says about its own clock must not put anything into the future.
    at: Number.isFinite(stamped) ? Math.min(stamped, now) : now,
    kind: message.meta?.kind ?? RECEIVED,
    type: message.type,
    actor: plain(message.from?.agent_id ?? ''),
    auth: message.meta?.auth ?? 'none',
    run: message.run_id,
    thread: message.thread_id,
    task: message.task_id ?? null,
    cause: message.meta?.cause ?? null,
    payload: message.payload ?? {},
  };
}

/** `agent:ken` is `ken`. People stay `person:anna`. */
export function plain(address: string): string {
  return address.startsWith('agent:') ? address.slice(6) : address;
}

export function text(payload: Payload, field: string): string | undefined {
  const value = payload[field];
  return typeof value === 'string' ? value : undefined;
}

export function texts(payload: Payload, field: string): string[] {
  const value = payload[field];
  return Array.isArray(value) ? value.filter((entry): entry is string => typeof entry === 'string') : [];
}

export function number(payload: Payload, field: string): number | undefined {
  const value = payload[field];
  return typeof value === 'number' ? value : undefined;
}

export function object(payload: Payload, field: string): Payload {
  const value = payload[field];
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? (value as Payload) : {};
}
