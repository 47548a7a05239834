// An event in words: one short sentence for a person, by kind. What is not known by name is told by its kind.

import type { IconName } from '../parts/Icon';
import { type LogEvent, number, object, type Payload, plain, text, texts } from './event';
import { channelOf, channelTitle } from './talk';

/** Names of things, as the page knows them. */
export interface Names {
  task(id: string): string;
}

/** States whose own word is no adjective. */
const STATES: Record<string, string> = { review: 'in review', paused: 'blocked' };

export type Level = 'talk' | 'decision' | 'task' | 'noise';

export function describe(event: LogEvent, names: Names): string {
  const { payload } = event;
  const task = () => names.task(text(payload, 'task') ?? event.task ?? '');
  const path = () => pathOf(payload);
  const because = (field = 'reason') => suffix(text(payload, field));
  switch (event.kind) {
    case 'agent.registered': return `joined as ${text(payload, 'role') ?? 'worker'} (${text(payload, 'tool') ?? '?'})`;
    case 'agent.updated': return 'changed its profile';
    case 'agent.returned': return 'is back';
    case 'agent.status_set': return `is ${words(text(payload, 'status'))}`;
    case 'agent.left': return 'left';
    case 'agent.paused': return `paused ${text(payload, 'agent')}${because()}`;
    case 'agent.resumed': return `let ${text(payload, 'agent')} go on`;
    case 'agent.went_offline': return `${text(payload, 'agent')} went offline`;
    case 'lead.chosen': return `${text(payload, 'holder') ?? 'nobody'} leads`;
    case 'task.created': return `asked for ${text(payload, 'title') ?? 'a task'}`;
    case 'task.reserved': return `${task()} is kept for ${text(payload, 'agent')}`;
    case 'task.reassigned': return `gave ${task()} to ${text(payload, 'to')}`;
    case 'task.claimed': return `took ${task()}`;
    case 'task.started': return `began ${task()}`;
    case 'task.step_set': return `${task()} is ${STATES[text(payload, 'to') ?? ''] ?? words(text(payload, 'to'))}${because()}`;
    case 'task.planned': return `planned ${task()}`;
    case 'task.released': return `${task()} is free again${because()}`;
    case 'task.retried': return `${task()} is tried again, attempt ${number(payload, 'attempt') ?? '?'}`;
    case 'task.reopened': return `${task()} begins anew`;
    case 'task.completed': return `finished ${task()}${suffix(text(object(payload, 'outcome'), 'text'))}`;
    case 'task.failed': return `${task()} failed${because('error')}`;
    case 'task.timed_out': return `${task()} took too long${because('message')}`;
    case 'task.attempts_exhausted': return `${task()} failed for good after ${number(payload, 'attempts') ?? '?'} attempts`;
    case 'task.cancelled': return `cancelled ${task()}${because()}`;
    case 'task.dependents_unblocked': return `more tasks that waited for ${task()} can begin`;
    case 'task.skipped': return `skipped ${task()}${because()}`;
    case 'task.forwarded': return `passed ${task()} on to ${text(payload, 'to')}`;
    case 'task.removed': return `took ${task()} out of the plan`;
    case 'checkpoint.added': return `checkpoint: ${text(payload, 'summary') ?? ''}`;
    case 'file.claimed': return `claimed ${path()}`;
    case 'file.released': return `released ${path()}`;
    case 'file.forced': return `took ${path()} from ${text(payload, 'loser')}`;
    case 'file.locked': return `locked ${path()}`;
    case 'file.unlocked': return `unlocked ${path()}`;
    case 'file.modified': return `changed ${path()}`;
    case 'file.untracked_changed': return `${number(payload, 'changed') ?? 0} unclaimed files changed`;
    case 'file.conflict_detected': return `${text(payload, 'intruder')} changed ${path()}, which ${text(payload, 'holder')} holds`;
    case 'file.conflict_resolved': return `the conflict about ${path()} ended${text(payload, 'winner') ? `: ${text(payload, 'winner')} keeps it` : ''}`;
    case 'file.conflict_escalated': return `the conflict about ${path()} waits for a person`;
    case 'handoff.initiated': return `offers ${task()} to ${text(payload, 'to') ?? 'whoever takes it'}: ${text(payload, 'summary') ?? ''}`;
    case 'handoff.accepted': return `took ${task()} over from ${text(payload, 'from')}`;
    case 'handoff.rejected': return `did not take ${task()}${because()}`;
    case 'report.added': return `reported ${text(payload, 'action') ?? ''}`;
    case 'run.created': return `made the run ${text(payload, 'title') ?? text(payload, 'name') ?? ''}`;
    case 'run.status_set': return `the run is ${words(text(payload, 'status') ?? text(payload, 'to'))}`;
    case 'message.sent': return spoken(payload);
    case 'message.held': return `a message of ${text(payload, 'from')} is held for a person`;
    case 'message.read': return `read ${counted(texts(payload, 'messages').length, 'message')}${forAgent(event)}`;
    case 'message.acked': return `acknowledged ${counted(texts(payload, 'messages').length, 'message')}${forAgent(event)}`;
    case 'message.superseded': return `${counted(texts(payload, 'messages').length, 'message')} no longer wanted from ${text(payload, 'agent') ?? ''}`;
    case 'channel.archived': return `archived this channel as #${channelTitle(channelOf(text(payload, 'archive') ?? ''))}`;
    case 'document.written': return `wrote ${pathOf(payload)}, version ${number(payload, 'version') ?? '?'}`;
    case 'document.deleted': return `deleted ${pathOf(payload)}`;
    case 'routing.decided': return routed(payload, task());
    case 'routing.failed': return `nobody fits ${task()}: ${text(payload, 'reason') ?? ''}`;
    case 'delivery.abandoned': return `a message could not be delivered to ${text(payload, 'agent') ?? 'its recipient'}`;
    case 'team.start_requested': return `asked to start ${text(payload, 'file') ?? 'a workflow file'} as ${text(payload, 'team') ?? 'a team'}`;
    case 'team.spawned': return `${text(payload, 'file') ?? 'the workflow file'} was started`;
    case 'team.start_failed': return `${text(payload, 'file') ?? 'the workflow file'} could not be started${because()}`;
    case 'team.started': return `the team ${text(payload, 'team') ?? ''} began to work`;
    case 'team.resumed': return `the team ${text(payload, 'team') ?? ''} goes on`;
    case 'team.kicked_off': return `the team ${text(payload, 'team') ?? ''} was told what to do`;
    case 'team.stop_requested': return `asked ${text(payload, 'member') ?? `the team ${text(payload, 'team') ?? ''}`} to stop${because()}`;
    case 'team.ended': return `the team ${text(payload, 'team') ?? ''} ended: ${words(text(payload, 'how'))}${because()}`;
    case 'turn.started': return `${text(payload, 'agent') ?? ''} began a turn`;
    case 'turn.ended': return `the turn of ${text(payload, 'agent') ?? 'an agent'} ended: ${text(payload, 'how') ?? ''}${suffix(text(object(payload, 'failure'), 'reason'))}`;
    case 'context.configured': return 'configured the context';
    case 'run.planned': return `planned ${counted(texts(payload, 'planned').length, 'task')}${suffix(text(payload, 'summary'))}`;
    case 'envelope.received': return `${event.type}${suffix(text(payload, 'text') ?? text(payload, 'title'))}`;
    default: return words(event.kind);
  }
}

function routed(payload: Payload, task: string): string {
  const best = candidates(payload)[0];
  const score = best ? `, score ${best.score.toFixed(2)}` : '';
  return `Routed ${task} to ${plain(text(payload, 'selected') ?? '')}${score}, best of ${number(payload, 'eligible') ?? 1}`;
}

export interface Candidate { agent: string; score: number }

/** Those who fit, the best first. */
export function candidates(decision: Payload): Candidate[] {
  const scores = object(decision, 'scores');
  return texts(decision, 'candidates').map((address) => ({ agent: plain(address), score: number(scores, address) ?? 0 }));
}

export interface Refused { agent: string; reason: string }

/** Those who do not, and why. */
export function refused(decision: Payload): Refused[] {
  const rejected = object(decision, 'rejected');
  return Object.keys(rejected).map((address) => ({ agent: plain(address), reason: text(rejected, address) ?? '' }));
}

/** The kind of the event that a notification announces; nothing for messages that say something themselves. */
function announced(payload: Payload): string | undefined {
  return text(payload, 'announces');
}

function spoken(payload: Payload): string {
  const to = texts(object(payload, 'to'), 'agents');
  const announces = announced(payload);
  if (announces) return `notified ${to.join(', ')} of ${announces}`;
  const said = (text(payload, 'text') ?? '').slice(0, 160);
  return text(payload, 'form') === 'entry' ? said : `to ${to.join(', ') || 'everybody'}: ${said}`;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** Whose it is, where a runner did it. */
function forAgent(event: LogEvent): string {
  const agent = text(event.payload, 'agent');
  return agent === undefined || agent === event.actor ? '' : ` for ${agent}`;
}

function suffix(why: string | undefined): string {
  return why ? `: ${why.slice(0, 200)}` : '';
}

/** Whether the words need the author before them: those that begin with what the author did. */
export function isDeed(event: LogEvent): boolean {
  return !NO_DEEDS.has(event.kind) && !event.kind.startsWith('routing.') && !event.kind.startsWith('turn.');
}

const NO_DEEDS = new Set([
  'agent.went_offline', 'lead.chosen', 'task.reserved', 'task.step_set', 'task.released', 'task.retried', 'task.reopened', 'task.failed',
  'task.timed_out', 'task.attempts_exhausted', 'file.untracked_changed', 'file.conflict_detected', 'file.conflict_resolved',
  'file.conflict_escalated', 'message.held', 'message.superseded', 'run.status_set', 'delivery.abandoned', 'team.spawned', 'team.start_failed', 'team.started', 'team.resumed', 'team.kicked_off', 'team.ended',
]);

/** Paths come as a text, or with the key that they are known by. */
export function pathOf(payload: Payload): string {
  return text(payload, 'path') ?? text(object(payload, 'path'), 'shown') ?? '';
}

export function words(word: string | undefined): string {
  return (word ?? '').replaceAll('_', ' ').replaceAll('.', ' ');
}

const DECISIONS = new Set([
  'lead.chosen', 'file.forced', 'task.reassigned', 'routing.decided', 'routing.failed', 'file.conflict_detected',
  'file.conflict_resolved', 'file.conflict_escalated', 'task.failed', 'task.attempts_exhausted', 'task.timed_out',
  'handoff.initiated', 'handoff.accepted', 'handoff.rejected', 'message.held', 'delivery.abandoned', 'agent.went_offline', 'agent.paused', 'agent.resumed',
  'team.start_requested', 'team.start_failed', 'team.stop_requested',
]);

export function levelOf(event: LogEvent): Level {
  if (event.kind === 'message.sent') return announced(event.payload) ? 'noise' : 'talk';
  if (DECISIONS.has(event.kind)) return 'decision';
  if (event.kind === 'checkpoint.added' || event.kind.startsWith('task.') || event.kind.startsWith('agent.') || event.kind.startsWith('document.')) return 'task';
  return 'noise';
}

export function isTrouble(event: LogEvent): 'bad' | 'warn' | undefined {
  if (/failed|exhausted|timed_out|abandoned|denied/.test(event.kind)) return 'bad';
  if (/conflict_detected|conflict_escalated|held|went_offline/.test(event.kind)) return 'warn';
  return event.kind === 'task.step_set' && text(event.payload, 'to') === 'paused' ? 'warn' : undefined;
}

export function iconOf(event: LogEvent): IconName {
  const [noun] = event.kind.split('.');
  switch (noun) {
    case 'routing': return 'route';
    case 'task': return 'tasks';
    case 'agent':
    case 'lead': return 'agents';
    case 'resource': return 'files';
    case 'handoff': return 'handoff';
    case 'document': return 'document';
    case 'checkpoint': return 'flag';
    case 'run': return 'runs';
    default: return 'tool';
  }
}
