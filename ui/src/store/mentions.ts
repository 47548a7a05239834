// Whom a text that is being written will reach, and how urgently: the same reading of it that the daemon has.

import { instanceOf } from './instance';
import { bare } from './talk';

const URGENT = new Set(['urgent', 'asap', 'blocked', 'critical']);

/** Between `@` and the name of a standalone agent, where a member of `default` has the same name. */
export const EXACT = 'agent:';

/** Names that a text mentions, once each, as ids in a channel: bare names are of the channel's own instance. */
export function mentioned(text: string, channel: string): string[] {
  const found = new Set<string>();
  for (const [, exact, name = '', other] of text.matchAll(/@(agent:(?=[A-Za-z]))?([A-Za-z][A-Za-z0-9_-]*)(?:@([A-Za-z0-9_-]+))?/g)) {
    found.add(exact && !other ? name : `${name}@${other ?? channel}`);
  }
  return [...found];
}

/** What to write behind `@` in a channel, so that it reaches this agent. */
export function mentionOf(id: string, channel: string, agents: ReadonlyMap<string, unknown>): string {
  const standalone = bare(id) === id;
  if (standalone && agents.has(`${id}@default`)) return `${EXACT}${id}`;
  if (instanceOf(id) === channel) return bare(id);
  return standalone ? `${id}@default` : id;
}

/** The id of an agent for people: without `@default`, unless a standalone agent has that name. */
export function shownId(id: string, agents: ReadonlyMap<string, unknown>): string {
  return id.endsWith('@default') && !agents.has(bare(id)) ? bare(id) : id;
}

/** The agent that a mention reaches: in `default` a member comes before the standalone agent of the same name. */
function reached(name: string, agents: ReadonlyMap<string, unknown>): string | undefined {
  if (agents.has(name)) return name;
  return name.endsWith('@default') && agents.has(bare(name)) ? bare(name) : undefined;
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
  const known = [...new Set(names.filter((name) => !people.has(bare(name))).flatMap((name) => reached(name, agents) ?? []))];
  const authors = [...new Set(thread.map((entry) => entry.from))].filter((author) => author !== `person:${me}`);
  const others = authors.filter((author) => author.startsWith('person:')).map((author) => author.slice(7));
  const urgent = text.split(/[^A-Za-z0-9_]+/).some((word) => URGENT.has(word.toLowerCase()));
  return {
    agents: [...new Set([...known, ...authors.filter((author) => agents.has(author))])],
    people: [...new Set([...names.filter((name) => people.has(bare(name))).map(bare), ...others])],
    unknown: names.filter((name) => reached(name, agents) === undefined && !people.has(bare(name))),
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
