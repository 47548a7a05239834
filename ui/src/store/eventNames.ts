// The names that people see for events: those of REST, without the `x.` of what its contract does not name. The log has its own
// kinds, which are finer.

import { type LogEvent, RECEIVED, text } from './event';

/** The actions of REST, by kind; other kinds keep their names. A test holds this against the daemon. */
const ACTIONS: Record<string, string> = {
  'agent.registered': 'agent.joined',
  'agent.returned': 'agent.heartbeat',
  'agent.status_set': 'agent.status_changed',
  'agent.went_offline': 'agent.status_changed',
  'file.claimed': 'resource.claimed',
  'file.released': 'resource.released',
  'file.modified': 'resource.modified',
  'file.conflict_detected': 'resource.conflict_detected',
  'file.conflict_resolved': 'resource.conflict_resolved',
  'file.conflict_escalated': 'authority.escalation',
  'file.forced': 'authority.decision',
  'task.reserved': 'task.assigned',
  'task.claimed': 'task.assigned',
  'task.failed': 'task.blocked',
  'task.timed_out': 'task.blocked',
  'task.reassigned': 'authority.decision',
  'task.attempts_exhausted': 'authority.escalation',
  'lead.chosen': 'authority.decision',
  'message.held': 'authority.escalation',
  'delivery.abandoned': 'authority.escalation',
};

export function eventName(event: LogEvent): string {
  if (event.kind === 'report.added') return withoutMark(text(event.payload, 'action') ?? event.kind);
  if (event.kind === 'task.step_set' && text(event.payload, 'to') === 'paused') return 'task.blocked';
  // Shown as the message that the router sends on.
  if (event.kind === RECEIVED && event.actor === 'orchestrator' && event.type === 'task.request') return 'task.forwarded';
  return ACTIONS[event.kind] ?? event.kind;
}

/** As REST writes actions that are not in its contract. */
export function withoutMark(action: string): string {
  return action.replace(/^x\./, '');
}

/** The kind of an action that stands for one kind only. */
export function kindOf(action: string): string {
  const name = withoutMark(action);
  const kinds = Object.keys(ACTIONS).filter((kind) => ACTIONS[kind] === name);
  return kinds.length === 1 ? (kinds[0] ?? name) : name;
}
