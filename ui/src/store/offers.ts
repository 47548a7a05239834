// What a person can do about something, the likeliest first: the same for a matter in Attention, for its own page and for the
// command menu.

import { at } from '../router';
import * as actions from './actions';
import type { Matter } from './attention';
import { type Agent, assignee, type FileState, type Handoff, isOpen, type Task, type World } from './world';

export type Offer =
  | { is: 'do'; label: string; main?: boolean; key?: string; run: () => void }
  | { is: 'choose'; label: string; except?: string | undefined; run: (agent: string) => void }
  | { is: 'why'; label: string; ask: string; must?: boolean; run: (why: string) => void }
  | { is: 'go'; label: string; main?: boolean; to: string };

export function ofTask(task: Task, { files }: Pick<World, 'files'>): Offer[] {
  const offers: Offer[] = [];
  const holder = assignee(task);
  if (task.state === 'review' && holder) {
    offers.push(
      { is: 'do', label: 'Approve', main: true, key: 'A', run: () => void actions.approve(task.id, holder) },
      { is: 'why', label: 'Request changes', ask: 'What should change?', run: (what) => void actions.sendBack(task, holder, what) },
    );
  }
  if (task.state === 'paused' && holder) {
    const blocker = [...files.values()].find((file) => file.claim && file.claim.holder !== holder && task.reason?.includes(file.path));
    offers.push({ is: 'do', label: 'Let it go on', main: true, run: () => void actions.resume(task.id, holder) });
    if (blocker?.claim) offers.push(askToRelease(blocker.path, blocker.claim.holder, holder));
  }
  if (task.state === 'failed') {
    offers.push(
      { is: 'do', label: 'Retry', main: true, run: () => void actions.retry(task.id) },
      { is: 'choose', label: 'Retry with', run: (agent) => void actions.retry(task.id).then((done) => done && actions.assign(task.id, agent)) },
      { is: 'why', label: 'Stop retries', ask: 'Why?', run: (why) => void actions.cancel(task.id, why) },
    );
  }
  if (task.state === 'completed') offers.push({ is: 'do', label: 'Begin anew', run: () => void actions.beginAnew(task.run, task.id) });
  if (isOpen(task.state)) {
    offers.push({ is: 'choose', label: holder ? 'Reassign' : 'Give to', except: holder, run: (agent) => void actions.assign(task.id, agent) });
    if (task.state === 'in_progress' && holder) offers.push({ is: 'do', label: 'Pause', run: () => void actions.pauseTask(task.id, holder) });
    offers.push({ is: 'why', label: 'Cancel', ask: 'Why?', run: (why) => void actions.cancel(task.id, why) });
  }
  return offers;
}

function askToRelease(path: string, holder: string, waiting: string): Offer {
  return { is: 'do', label: `Ask ${holder} to release`, run: () => void actions.ask(holder, `please release ${path}: ${waiting} waits for it.`) };
}

export function ofFile(file: FileState, tasks: ReadonlyMap<string, Task>): Offer[] {
  const { claim, conflict, path } = file;
  const offers: Offer[] = [];
  for (const winner of conflict ? [conflict.holder, conflict.intruder] : []) {
    offers.push({ is: 'do', label: `${winner} keeps it`, run: () => void actions.resolve(path, winner) });
  }
  if (claim) {
    const [first] = waitersFor(file, tasks);
    if (first) offers.push(askToRelease(path, claim.holder, assignee(first) ?? first.title));
    offers.push(
      { is: 'do', label: 'Release', run: () => void actions.release(path, claim.holder) },
      { is: 'choose', label: 'Hand over', except: claim.holder, run: (agent) => void actions.handOver(path, agent) },
    );
  }
  if (file.locked) offers.push({ is: 'do', label: 'Unlock', run: () => void actions.unlock(path) });
  else if (!claim) offers.push({ is: 'do', label: 'Lock', run: () => void actions.lock(path) });
  return offers;
}

/** Blocked tasks whose reason names the file. */
export function waitersFor(file: FileState, tasks: ReadonlyMap<string, Task>): Task[] {
  return [...tasks.values()].filter((task) => task.state === 'paused' && task.reason?.includes(file.path) && assignee(task) !== file.claim?.holder);
}

export function ofHandoff(handoff: Handoff): Offer[] {
  const { id, to, from } = handoff;
  if (handoff.status !== 'pending') return [];
  const accept = (agent: string) => void actions.acceptHandoff(id, agent);
  if (to === undefined) return [{ is: 'choose', label: 'Accept for', except: from, run: accept }];
  return [
    { is: 'do', label: `Accept for ${to}`, main: true, run: () => accept(to) },
    { is: 'why', label: 'Reject', ask: 'Why not?', must: true, run: (why) => void actions.rejectHandoff(id, to, why) },
  ];
}

/** The team that a runner runs an agent in, as far as it matters here. */
interface Employed { team: { id: string }; member: { name: string; stop_requested: boolean } }

/** Every agent can be paused; those that a runner runs can be stopped. */
/** Only for one that nobody runs. */
export const DISMISS = 'Dismiss from the team';

export function ofAgent(agent: Agent, { files }: Pick<World, 'files'>, run: Employed | undefined): Offer[] {
  const held = [...files.values()].filter((file) => file.claim?.holder === agent.id).map((file) => file.path);
  const offers: Offer[] = [
    agent.paused
      ? { is: 'do', label: 'Let it go on', run: () => void actions.resumeAgent(agent.id) }
      : { is: 'why', label: 'Pause', ask: 'Why?', run: (why) => void actions.pauseAgent(agent.id, why) },
  ];
  if (run && !run.member.stop_requested) offers.push({ is: 'why', label: 'Stop', ask: 'Why?', run: (why) => void actions.stopAgent(run.team.id, run.member.name, why) });
  if (held.length > 0) offers.push({ is: 'do', label: 'Release its files', run: () => void actions.releaseAll(held, agent.id) });
  if (!run) offers.push({ is: 'do', label: DISMISS, run: () => void actions.dismissAgent(agent.id) });
  return offers;
}

/** About an agent that shows too little of itself. */
function ofQuiet(agent: string, { files }: World): Offer[] {
  const held = [...files.values()].filter((file) => file.claim?.holder === agent).map((file) => file.path);
  const offers: Offer[] = [{ is: 'do', label: 'Ping', main: true, run: () => void actions.ask(agent, 'are you still at it? Tell what you are doing.') }];
  if (held.length > 0) offers.push({ is: 'do', label: 'Release its files', run: () => void actions.releaseAll(held, agent) });
  return offers;
}

export function ofMatter(matter: Matter, world: World): Offer[] {
  const task = matter.task === undefined ? undefined : world.tasks.get(matter.task);
  switch (matter.kind) {
    case 'review':
    case 'answer':
    case 'blocked':
    case 'failed':
    case 'unrouted': return task ? ofTask(task, world).filter((offer) => offer.label !== 'Cancel') : [];
    case 'conflict': {
      const file = world.files.get(matter.path ?? '');
      return file ? ofFile(file, world.tasks).slice(0, 2) : [];
    }
    case 'handoff': {
      const handoff = world.handoffs.get(matter.handoff ?? '');
      return handoff ? ofHandoff(handoff) : [];
    }
    case 'held': {
      const message = matter.message ?? '';
      return [
        { is: 'do', label: 'Deliver', main: true, run: () => void actions.decideHeld(message, 'deliver') },
        { is: 'do', label: 'Discard', run: () => void actions.decideHeld(message, 'discard') },
      ];
    }
    case 'mention': return [{ is: 'go', label: 'Answer', main: true, to: `${at('c', matter.channel ?? 'default')}?thread=${encodeURIComponent(matter.message ?? '')}` }];
    case 'stale':
    case 'silent': return ofQuiet(matter.agent ?? '', world);
    case 'offline': return [{ is: 'do', label: 'Dismiss from the team', run: () => void actions.dismissAgent(matter.agent ?? '') }];
  }
}
