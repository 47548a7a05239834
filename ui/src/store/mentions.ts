// Whom a text that is being written will reach, and how urgently: the same reading of it that the daemon has.

import { bare } from './talk';

const URGENT = new Set(['urgent', 'asap', 'blocked', 'critical']);

/** Names that a text mentions, once each, as ids in a channel: bare names are of the channel's own instance. */
export function mentioned(text: string, channel: string): string[] {
  const found = new Set<string>();
  for (const [, name = '', other] of text.matchAll(/@([A-Za-z][A-Za-z0-9_-]*)(?:@([A-Za-z0-9_-]+))?/g)) {
    const instance = other ?? channel;
    found.add(instance === 'default' ? name : `${name}@${instance}`);
  }
  return [...found];
}

export interface Reach {
  /** Agents that will find it in their inbox. */
  agents: string[];
  /** People that will find it in their Attention. */
  people: string[];
  /** Names that nobody has. */
  unknown: string[];
  priority: 'normal' | 'high';
}

/** `thread` are the entries of the thread that it replies in: whoever wrote them is notified, besides those that it mentions. */
export function reach(
  text: string, channel: string, agents: ReadonlyMap<string, unknown>, people: ReadonlySet<string> = new Set(),
  thread: readonly { from: string }[] = [], me?: string,
): Reach {
  const names = mentioned(text, channel);
  // A person comes before an agent of the same name.
  const known = names.filter((name) => agents.has(name) && !people.has(bare(name)));
  const authors = [...new Set(thread.map((entry) => entry.from))].filter((author) => author !== `person:${me}`);
  const others = authors.filter((author) => author.startsWith('person:')).map((author) => author.slice(7));
  const urgent = text.split(/[^A-Za-z0-9_]+/).some((word) => URGENT.has(word.toLowerCase()));
  return {
    agents: [...new Set([...known, ...authors.filter((author) => agents.has(author))])],
    people: [...new Set([...names.filter((name) => people.has(bare(name))).map(bare), ...others])],
    unknown: names.filter((name) => !agents.has(name) && !people.has(bare(name))),
    priority: urgent || known.length > 1 ? 'high' : 'normal',
  };
}

export function reachWords({ agents, people, unknown, priority }: Reach): string {
  const told = agents.length > 0 ? `Notifies ${agents.map(bare).join(', ')}, ${priority} priority` : people.length > 0 ? 'Notifies no agent' : 'Notifies nobody; everybody can read it';
  const shown = people.length > 0 ? `${told}; ${people.join(', ')} will find it in Attention` : told;
  return unknown.length > 0 ? `${shown}. Nobody is called ${unknown.map((name) => `@${bare(name)}`).join(', ')}` : shown;
}

/** The mention that is being typed before a place in a text, if there is one. */
export function typing(text: string, caret: number): { from: number; start: string } | undefined {
  const match = /(?:^|[^\w@])@([A-Za-z][\w-]*)?$/.exec(text.slice(0, caret));
  if (!match) return undefined;
  const start = match[1] ?? '';
  return { from: caret - start.length - 1, start };
}
