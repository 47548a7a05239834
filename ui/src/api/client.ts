// Calls to the daemon. Everything goes to our own origin. The cookie and the header of the browser session together tell who acts.

import type { Placed } from '../store/event';
import type { Snapshot, Source, Stream, StreamListener } from '../store/feed';
import { Credential } from './credential';
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

// Asked for when it is needed: a browser may deny the storage, and the page then works without a session.
export const credential = new Credential({
  getItem: (key) => localStorage.getItem(key),
  setItem: (key, value) => localStorage.setItem(key, value),
  removeItem: (key) => localStorage.removeItem(key),
});

/** Codes that tell of the store and not of the request. */
const STORE_CODES = new Set(['STORE_UNAVAILABLE', 'STORE_CORRUPT']);
let storeFailed = () => {};

/** Calls the listener when an answer tells that the store cannot be read or written. */
export function onStoreFailure(listener: () => void): void {
  storeFailed = listener;
}

/** Every response names its project. Asked for once, because the session's half is kept by project. */
async function knowProject(): Promise<void> {
  if (!credential.isKnown()) credential.serves((await fetch('/healthz')).headers.get('x-rookery-project'));
}

interface Init { method?: string; headers?: Record<string, string>; body?: string }

/** Calls the daemon with the page's half of the session. If the session has ended, reads go on without it. */
export async function call(path: string, init: Init = {}): Promise<Response> {
  await knowProject();
  const secret = credential.get();
  const headers = { ...init.headers, ...(secret === undefined ? {} : { 'x-rookery-browser': secret }) };
  const response = await fetch(path, { ...init, headers });
  if (response.status !== 401 || secret === undefined) return response;
  credential.reject(secret);
  return init.method === undefined ? call(path, init) : response;
}

/** Exchanges the code of a sign-in link for a session. */
export async function signIn(code: string): Promise<void> {
  await knowProject();
  const { secret } = await send<Wire['SignedIn']>('POST', '/session', { code });
  credential.set(secret);
}

/** Saves what is at a path as a file. A link could not send the session. */
export async function download(path: string, name: string): Promise<void> {
  const response = await call(path);
  if (!response.ok) await answered(response);
  const url = URL.createObjectURL(await response.blob());
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export async function get<T>(path: string): Promise<T> {
  return (await answered(await call(path, { headers: { accept: 'application/json' } }))) as T;
}

export async function send<T>(method: 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, body?: unknown): Promise<T> {
  const headers: Record<string, string> = { accept: 'application/json', 'idempotency-key': crypto.randomUUID() };
  if (body !== undefined) headers['content-type'] = 'application/json';
  const payload = body === undefined ? {} : { body: JSON.stringify(body) };
  return (await answered(await call(path, { method, headers, ...payload }))) as T;
}

async function answered(response: Response): Promise<unknown> {
  const body = await parsed(response);
  if (response.ok) return body;
  // Two faces, two shapes: {error, code, hint} and {code, message, details}.
  const told = (body ?? {}) as { error?: string; message?: string; code?: string; hint?: string };
  if (told.code !== undefined && STORE_CODES.has(told.code)) storeFailed();
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

export interface Probed { message: string; hint: string | undefined }

/** Why the store takes no writes, and what to do; nothing if it takes them or the daemon does not answer. */
export async function probe(): Promise<Probed | undefined> {
  const response = await call('/readyz').catch(() => undefined);
  if (response?.status !== 503) return undefined;
  const { error, hint } = ((await parsed(response)) ?? {}) as { error?: string; hint?: string };
  return { message: error ?? 'the store cannot write', hint };
}

/** The log, as the feed wants it. */
export const source: Source<Wire['StateSnapshot']> = {
  async snapshot(): Promise<Snapshot<Wire['StateSnapshot']>> {
    const response = await call('/state', { headers: { accept: 'application/json' } });
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
  const secret = credential.get();
  const socket = new WebSocket(
    `${scheme}://${location.host}/clutch/v0/stream?batch=1&after=${encodeURIComponent(position)}${secret === undefined ? '' : '&authenticate=1'}`,
  );
  let closing = false;
  let opened = false;
  const ready = () => {
    opened = true;
    listener.opened();
  };
  socket.onopen = () => {
    // A browser cannot send headers with a socket, so the session's half is the first frame.
    if (secret === undefined) ready();
    else socket.send(JSON.stringify({ op: 'authenticate', secret }));
  };
  socket.onmessage = ({ data }) => {
    const frame: unknown = JSON.parse(String(data));
    if (Array.isArray(frame)) listener.frame(frame as Placed[]);
    else if ((frame as { op?: string }).op === 'authenticated') ready();
  };
  socket.onclose = async () => {
    if (closing) return;
    // Tells whether the session has ended.
    if (secret !== undefined) await call('/session').catch(() => undefined);
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
    const response = await call(`/clutch/v0/messages?limit=1&after=${encodeURIComponent(position)}`);
    return response.status === 410;
  } catch {
    return false;
  }
}
