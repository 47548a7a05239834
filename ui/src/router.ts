// Where the page is: the address bar, as a store. Every view is an address; back and forward are the browser's.

import { useSyncExternalStore } from 'react';

export interface Place {
  /** The parts of the path below `/ui`, decoded. */
  parts: string[];
  query: URLSearchParams;
  hash: string;
  href: string;
}

const ROOT = '/ui';
const listeners = new Set<() => void>();
let here = read();

function read(): Place {
  const { pathname, search, hash } = location;
  const below = pathname.startsWith(ROOT) ? pathname.slice(ROOT.length) : '';
  return {
    parts: below.split('/').filter(Boolean).map(decoded),
    query: new URLSearchParams(search),
    hash: hash.slice(1),
    href: pathname + search + hash,
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function moved(): void {
  here = read();
  for (const listener of listeners) listener();
}

addEventListener('popstate', moved);

export function usePlace(): Place {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => here,
  );
}

/** An address of this page. */
export function at(...parts: (string | number)[]): string {
  return [ROOT, ...parts.map((part) => encodeURIComponent(String(part)))].join('/');
}

export function go(href: string, how: 'push' | 'replace' = 'push'): void {
  if (href === here.href) return;
  if (how === 'push') history.pushState(null, '', href);
  else history.replaceState(null, '', href);
  moved();
}

/** Changes parameters of the address and leaves the rest. An empty value takes one out. */
export function withQuery(place: Place, changes: Record<string, string | undefined>): string {
  const query = new URLSearchParams(place.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  return location.pathname + (text ? `?${text}` : '') + (place.hash ? `#${place.hash}` : '');
}

/** For links: an ordinary click stays in the page, everything else is the browser's. */
export function follow(event: React.MouseEvent<HTMLAnchorElement>): void {
  const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  const href = event.currentTarget.getAttribute('href') ?? '';
  if (!plain || event.defaultPrevented || !href.startsWith(ROOT)) return;
  event.preventDefault();
  go(href);
}
