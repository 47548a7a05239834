// An event of the log as the UI keeps it: the daemon's envelope, read once and flattened.

import type { components } from '../api/schema';
import { kindOf } from './eventNames';

type Wire = components['schemas'];

/** One row of the stream: its place and the message, and in pages also when it came. */
export type Placed = Pick<Wire['PlacedMessage'], 'seq'> & Partial<Pick<Wire['PlacedMessage'], 'received_at'>> & { message: Shown };

/** An envelope as the daemon shows it. What a fact says, and about itself, is more than the protocol names. */
type Shown = Pick<Wire['ShownMessage'], 'id' | 'ts' | 'type' | 'run_id' | 'thread_id' | 'from' | 'to' | 'attachments'> & {
  task_id?: string | null;
  payload: Payload;
  meta?: { kind?: string; cause?: number | null; auth?: string } | null;
};

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
  /** Artifacts that came with it. */
  refs?: string[];
}

/** The task of messages that are about none. */
const NO_TASK = 'task_none';

export const RECEIVED = 'envelope.received';

export function read(placed: Placed, now: number): LogEvent {
  const { message } = placed;
  const refs = (message.attachments ?? []).map((attachment) => attachment.ref).filter((ref): ref is string => typeof ref === 'string');
  const stamped = Date.parse(placed.received_at ?? message.ts);
  return {
    seq: placed.seq,
    // What a sender says about its own clock must not put anything into the future.
    at: Number.isFinite(stamped) ? Math.min(stamped, now) : now,
    kind: message.meta?.kind ?? RECEIVED,
    type: message.type,
    actor: author(message.from),
    auth: message.meta?.auth ?? 'none',
    run: message.run_id,
    thread: message.thread_id,
    task: message.task_id === NO_TASK ? null : message.task_id ?? null,
    cause: message.meta?.cause ?? null,
    payload: message.payload ?? {},
    ...(refs.length ? { refs } : {}),
  };
}

/** Parts of the daemon, and callers without a name, are the system in the role of what they are. */
function author(from: Shown['from'] | undefined): string {
  const address = from?.agent_id ?? '';
  return address === 'system' ? from?.role ?? address : plain(address);
}

/** An event of `GET /events`, under the kind that the log has for it, where its action stands for one kind. */
export function fromProtocol(event: Wire['ProtocolEvent']): LogEvent {
  const kind = kindOf(event.action);
  const task = event.task_id ?? null;
  return {
    seq: event.seq, at: event.timestamp, kind, type: kind, actor: plain(event.agent_id), auth: 'none', run: '', thread: '', task, cause: null,
    payload: { ...event.metadata, ...(event.resource ? { path: event.resource } : {}), ...(task ? { task } : {}) },
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
