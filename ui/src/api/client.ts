// Calls to the daemon. Everything goes to our own origin; who acts is told by the cookie of the launch address.

import type { Placed } from '../store/event';
import type { Snapshot, Source, Stream, StreamListener } from '../store/feed';
import type { components } from './schema';

export type Wire = components['schemas'];

/** What the daemon refused, in its own words. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string | undefined,
    readonly body: unknown = undefined,
  ) {
    super(message);
  }
}

export async function get<T>(path: string): Promise<T> {
  return (await answered(await fetch(path, { headers: { accept: 'application/json' } }))) as T;
}

export async function send<T>(method: 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, body?: unknown): Promise<T> {
  const headers: Record<string, string> = { accept: 'application/json', 'idempotency-key': crypto.randomUUID() };
  if (body !== undefined) headers['content-type'] = 'application/json';
  const payload = body === undefined ? {} : { body: JSON.stringify(body) };
  return (await answered(await fetch(path, { method, headers, ...payload }))) as T;
}

async function answered(response: Response): Promise<unknown> {
  const body = await parsed(response);
  if (response.ok) return body;
  // Two faces, two shapes: {error, code, hint} and {code, message, details}.
  const told = (body ?? {}) as { error?: string; message?: string; code?: string; hint?: string };
  const message = told.error ?? told.message ?? `the daemon answered ${response.status}`;
  throw new ApiError(response.status, told.code ?? '', message, told.hint, body);
}

async function parsed(response: Response): Promise<unknown> {
  const text = await response.text();
  try {
    return text === '' ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function path(template: TemplateStringsArray, ...parts: string[]): string {
  return String.raw({ raw: template }, ...parts.map(encodeURIComponent));
}

/** The log, as the feed wants it. */
export const source: Source<Wire['StateSnapshot']> = {
  async snapshot(): Promise<Snapshot<Wire['StateSnapshot']>> {
    const response = await fetch('/state', { headers: { accept: 'application/json' } });
    const state = (await answered(response)) as Wire['StateSnapshot'];
    const log = response.headers.get('x-rookery-log') ?? '';
    const seq = Number(response.headers.get('x-rookery-seq') ?? 0);
    return { log, seq, state };
  },
  page: events,
  open,
};

export async function events(after: number, limit: number): Promise<Placed[]> {
  const { messages } = await get<{ messages: Placed[] }>(`/clutch/v0/messages?after=${after}&limit=${limit}`);
  return messages;
}

function open(position: string, listener: StreamListener): Stream {
  const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
  const socket = new WebSocket(
    `${scheme}://${location.host}/clutch/v0/stream?batch=1&after=${encodeURIComponent(position)}`,
  );
  let closing = false;
  let opened = false;
  socket.onopen = () => {
    opened = true;
    listener.opened();
  };
  socket.onmessage = ({ data }) => {
    const frame: unknown = JSON.parse(String(data));
    if (Array.isArray(frame)) listener.frame(frame as Placed[]);
  };
  socket.onclose = async () => {
    if (closing) return;
    // A browser does not tell why a socket was refused, so ask in another way.
    listener.closed(!opened && (await isGone(position)));
  };
  return {
    close() {
      closing = true;
      socket.close();
    },
  };
}

async function isGone(position: string): Promise<boolean> {
  try {
    const response = await fetch(`/clutch/v0/messages?limit=1&after=${encodeURIComponent(position)}`);
    return response.status === 410;
  } catch {
    return false;
  }
}
