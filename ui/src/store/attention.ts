// What needs a person, in the order of what it holds up. Derived from the world and the talk, so that a matter goes away when
// it is settled; putting one aside is an event of its own.

import type { Shape } from '../parts/Glyph';
import type { State } from './store';
import { isFor } from './talk';
import { assignee, isOpen, type Task } from './world';

export type Kind = 'review' | 'answer' | 'blocked' | 'failed' | 'unrouted' | 'stale' | 'silent' | 'offline' | 'conflict' | 'handoff' | 'mention' | 'held';

export interface Matter {
  /** Names this matter and no later one of the same thing. */
  key: string;
  kind: Kind;
  shape: Shape;
  what: string;
  who: string;
  why: string;
  since: number;
  /** How many tasks wait behind it. */
  behind: number;
  task?: string;
  path?: string;
  agent?: string;
  handoff?: string;
  channel?: string;
  message?: string;
  seq?: number;
}

/** A working agent that shows too little of itself. */
export interface Quiet { id: string; shape: 'stale' | 'silent'; since: number; claims: number }

type Seen = Pick<State, 'world' | 'talk' | 'session' | 'acknowledged' | 'routings' | 'held'> & { quiet: readonly Quiet[] };

export function matters(state: Seen): Matter[] {
  const behind = waiting(state.world.tasks);
  const all = [...ofTasks(state, behind), ...ofFiles(state), ...ofAgents(state), ...ofQuiet(state), ...ofHandoffs(state), ...ofTalk(state), ...ofHeld(state)];
  return all
    .filter((matter) => !state.acknowledged.has(matter.key))
    .sort((a, b) => weight(b) - weight(a) || b.behind - a.behind || a.since - b.since);
}

/** For each task, how many others wait for it, also by way of others. */
function waiting(tasks: ReadonlyMap<string, Task>): Map<string, number> {
  const dependents = new Map<string, string[]>();
  for (const task of tasks.values()) {
    for (const dep of task.waitingOn) dependents.set(dep, [...(dependents.get(dep) ?? []), task.id]);
  }
  const counts = new Map<string, number>();
  for (const id of dependents.keys()) {
    const seen = new Set<string>();
    const open = [...(dependents.get(id) ?? [])];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      if (seen.has(next)) continue;
      seen.add(next);
      open.push(...(dependents.get(next) ?? []));
    }
    counts.set(id, seen.size);
  }
  return counts;
}

const WEIGHTS: Record<Kind, number> = {
  review: 9, answer: 9, conflict: 8, failed: 7, blocked: 6, unrouted: 6, stale: 5, offline: 5, held: 5, mention: 4, handoff: 3, silent: 2,
};

function weight(matter: Matter): number {
  return WEIGHTS[matter.kind] + (matter.behind > 0 ? 10 : 0);
}

function ofTasks({ world, routings }: Seen, behind: Map<string, number>): Matter[] {
  const found: Matter[] = [];
  for (const task of world.tasks.values()) {
    const who = assignee(task) ?? 'nobody';
    const add = (kind: Kind, shape: Shape, what: string, why: string) =>
      found.push({
        key: `${kind}:${task.id}:${task.attempt}:${task.since}`, kind, shape, what, who, why,
        since: task.since, behind: behind.get(task.id) ?? 0, task: task.id,
      });
    if (task.state === 'review') add('review', 'waiting', `${who} asks for review: ${task.title}`, task.reason ?? 'it goes on when somebody approves it');
    else if (task.state === 'paused' && task.waitingFor === 'input') add('answer', 'waiting', `${who} waits for an answer: ${task.title}`, task.reason ?? '');
    else if (task.state === 'paused') add('blocked', 'blocked', `${who} is blocked: ${task.title}`, task.reason ?? 'no reason given');
    else if (task.state === 'failed') add('failed', 'failed', `${task.title} failed, attempt ${task.attempt}`, task.reason ?? 'no reason given');
    else if (task.state === 'pending' && !assignee(task) && routings.get(task.id)?.kind === 'routing.failed') {
      add('unrouted', 'blocked', `Nobody fits ${task.title}`, 'the router found no agent for it');
    }
  }
  return found;
}

function ofFiles({ world }: Seen): Matter[] {
  return [...world.files.values()].flatMap((file) => {
    if (!file.conflict) return [];
    const { holder, intruder, since } = file.conflict;
    return [{
      key: `conflict:${file.path}:${since}`, kind: 'conflict' as const, shape: 'conflicted' as const,
      what: `${intruder} changed ${file.path}, which ${holder} holds`, who: intruder,
      why: 'say whose work stands', since, behind: 0, path: file.path,
    }];
  });
}

function ofAgents({ world }: Seen): Matter[] {
  return [...world.agents.values()].flatMap((agent) => {
    if (agent.status !== 'offline') return [];
    return [{
      key: `offline:${agent.id}:${agent.since}`, kind: 'offline' as const, shape: 'stale' as const,
      what: `${agent.id} is offline`, who: agent.id, why: 'its tasks went back to the queue and its files are free',
      since: agent.since, behind: 0, agent: agent.id,
    }];
  });
}

function ofQuiet({ quiet }: Seen): Matter[] {
  return quiet.map(({ id, shape, since, claims }) => ({
    key: `${shape}:${id}:${since}`, kind: shape, shape, who: id, agent: id, since, behind: 0,
    what: shape === 'stale' ? `${id} shows no sign of life` : `${id} is alive but silent`,
    why: claims > 0 ? `it holds ${claims} file${claims === 1 ? '' : 's'}` : 'it is at work and nothing comes of it',
  }));
}

function ofHandoffs({ world, session }: Seen): Matter[] {
  return [...world.handoffs.values()].flatMap((handoff) => {
    const target = handoff.to === undefined ? undefined : world.agents.get(handoff.to);
    const mine = session.person !== undefined && handoff.to === `person:${session.person}`;
    const stuck = handoff.to === undefined || mine || target === undefined || target.status === 'offline';
    if (handoff.status !== 'pending' || !stuck) return [];
    return [{
      key: `handoff:${handoff.id}`, kind: 'handoff' as const, shape: 'assigned' as const,
      what: `${handoff.from} hands over to ${handoff.to ?? 'whoever takes it'}`, who: handoff.from,
      why: handoff.summary, since: handoff.createdAt, behind: 0, handoff: handoff.id, task: handoff.task,
    }];
  });
}

function ofHeld({ held }: Seen): Matter[] {
  return held.map((message) => ({
    key: `held:${message.id}`, kind: 'held' as const, shape: 'waiting' as const,
    what: `A message of ${message.from} is held`, who: message.from, why: `${message.reason}: ${message.text.slice(0, 160)}`,
    since: message.at, behind: 0, message: message.id,
  }));
}

function ofTalk({ talk, session }: Seen): Matter[] {
  const me = session.person;
  if (me === undefined) return [];
  return [...talk.values()].flatMap((entries) =>
    entries
      .filter((entry, index) => entry.from !== `person:${me}` && isFor(entry, me) && !isAnswered(entries, index, me))
      .map((entry) => ({
        key: `mention:${entry.id}`, kind: 'mention' as const, shape: 'waiting' as const,
        what: entry.replyTo !== undefined && !entry.text.includes('@') ? `${entry.name} answers in your thread` : `${entry.name} mentions you`, who: entry.from, why: entry.text.slice(0, 200), since: entry.at,
        behind: 0, channel: entry.thread.replace(/^thr_/, ''), message: entry.id, seq: entry.seq,
      })));
}

/** Whether I said something in the channel after it: then it is dealt with. */
function isAnswered(entries: readonly { from: string; replyTo: string | undefined; id: string }[], index: number, me: string): boolean {
  const asked = entries[index];
  return entries.slice(index + 1).some((entry) => entry.from === `person:${me}` && entry.replyTo === asked?.id);
}

/** How many tasks are open. */
export function openTasks(tasks: ReadonlyMap<string, Task>): number {
  let count = 0;
  for (const task of tasks.values()) if (isOpen(task.state)) count += 1;
  return count;
}
