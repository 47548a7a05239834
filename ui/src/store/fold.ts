// The fold of the log: what one event makes of the world. It says in the browser's words what the daemon's own `apply` says,
// and a test holds the two against each other: fold(events <= n) is the snapshot at n.

import { type LogEvent, number, object, type Payload, plain, text, texts } from './event';
import {
  type Agent, type AgentStatus, type FileState, heldBy, isOpen, type Task, type TaskState, type World,
} from './world';

/** Folds events into a world. The world given stays as it is; tables that nothing touches are shared with it. */
export function fold(world: World, events: readonly LogEvent[]): World {
  if (events.length === 0) return world;
  const draft = new Draft(world);
  for (const event of events) {
    apply(draft, event);
    draft.seq = event.seq;
  }
  return draft.world();
}

/** A world under construction: each table is copied when it is first written to. */
class Draft {
  seq: number;
  lead: string | undefined;
  readonly agents: Table<Agent>;
  readonly tasks: Table<Task>;
  readonly files: Table<FileState>;
  readonly handoffs: Table<World['handoffs'] extends ReadonlyMap<string, infer H> ? H : never>;

  constructor(world: World) {
    this.seq = world.seq;
    this.lead = world.lead;
    this.agents = new Table(world.agents);
    this.tasks = new Table(world.tasks);
    this.files = new Table(world.files);
    this.handoffs = new Table(world.handoffs);
  }

  world(): World {
    return {
      seq: this.seq,
      lead: this.lead,
      agents: this.agents.rows,
      tasks: this.tasks.rows,
      files: this.files.rows,
      handoffs: this.handoffs.rows,
    };
  }
}

class Table<Row> {
  rows: ReadonlyMap<string, Row>;
  private own: Map<string, Row> | undefined;

  constructor(rows: ReadonlyMap<string, Row>) {
    this.rows = rows;
  }

  get(key: string): Row | undefined {
    return this.rows.get(key);
  }

  set(key: string, row: Row): void {
    this.writable().set(key, row);
  }

  remove(key: string): void {
    if (this.rows.has(key)) this.writable().delete(key);
  }

  change(key: string | undefined, to: (row: Row) => Row): void {
    const row = key === undefined ? undefined : this.rows.get(key);
    if (key !== undefined && row !== undefined) this.set(key, to(row));
  }

  private writable(): Map<string, Row> {
    this.own ??= new Map(this.rows);
    this.rows = this.own;
    return this.own;
  }
}

function apply(draft: Draft, event: LogEvent): void {
  const { payload } = event;
  noteActivity(draft, event);
  const task = text(payload, 'task') ?? event.task ?? undefined;
  const holder = text(payload, 'holder');
  switch (event.kind) {
    case 'agent.registered': return register(draft, event);
    case 'agent.updated': return draft.agents.change(text(payload, 'id'), (agent) => ({ ...agent, ...profile(payload) }));
    case 'agent.returned': return setStatus(draft, text(payload, 'agent'), 'idle', event.at);
    case 'agent.status_set': return statusSet(draft, event);
    case 'agent.paused': return pause(draft, event);
    case 'agent.resumed': return draft.agents.change(text(payload, 'agent'), (agent) => ({ ...agent, paused: undefined }));
    case 'agent.left': return draft.agents.remove(text(payload, 'agent') ?? '');
    case 'agent.went_offline':
      setStatus(draft, text(payload, 'agent'), 'offline', event.at);
      return draft.agents.change(text(payload, 'agent'), (agent) => ({ ...agent, currentTask: undefined }));
    case 'lead.chosen':
      draft.lead = holder;
      return;
    case 'task.created': return create(draft, event);
    case 'task.removed': return removeTask(draft, payload, task);
    case 'task.reserved': return reserve(draft, task, text(payload, 'agent'));
    case 'task.reassigned': return reserve(draft, task, text(payload, 'to'));
    case 'task.claimed': return claim(draft, event, task);
    case 'task.started':
      worksOn(draft, holder, task, event.at);
      return draft.tasks.change(task, (row) => ({
        ...row, state: 'in_progress', reason: undefined, waitingFor: undefined, waitingOn: [],
        startedAt: row.startedAt ?? event.at, since: event.at,
      }));
    case 'task.step_set': return moved(draft, event, task, holder);
    case 'task.planned':
      return draft.tasks.change(task, (row) => ({ ...row, state: state(payload, 'to', row.state), since: event.at }));
    case 'task.released':
      gaveUp(draft, holder, task, event.at);
      return draft.tasks.change(task, (row) => ({
        ...row, state: 'pending', holder: undefined, fence: undefined, reservedFor: undefined,
        reason: text(payload, 'reason'), waitingFor: undefined, since: event.at,
      }));
    case 'task.retried': return retried(draft, event, task);
    case 'task.reopened': return reopened(draft, event, task, holder);
    case 'task.completed': return completed(draft, event, task, holder);
    case 'task.failed': return ended(draft, event, task, holder, 'failed', text(payload, 'error'));
    // Shown in the protocol's form of an error.
    case 'task.timed_out': return ended(draft, event, task, addressed(object(payload, 'details'), 'holder'), 'failed', text(payload, 'message'));
    case 'task.dependents_unblocked': return unblock(draft, texts(payload, 'unblocks'), task);
    case 'task.cancelled':
    case 'task.skipped':
      ended(draft, event, task, holder, event.kind === 'task.skipped' ? 'skipped' : 'cancelled', text(payload, 'reason'));
      return unblock(draft, texts(payload, 'unblocks'), task);
    case 'handoff.initiated': return offer(draft, event);
    case 'handoff.accepted': return answer(draft, payload, 'accepted');
    case 'handoff.rejected': return answer(draft, payload, 'rejected');
    default:
      if (event.kind.startsWith('file.')) resource(draft, event);
  }
}

/** Whoever did something was active then; so was whom it is about, where an agent's own move is reported by another. */
function noteActivity(draft: Draft, event: LogEvent): void {
  const agent = draft.agents.get(event.actor);
  if (agent && agent.lastEvent < event.at) draft.agents.set(agent.id, { ...agent, lastEvent: event.at });
}

// Agents.

function profile(payload: Payload): Pick<Agent, 'tool' | 'role' | 'name' | 'capabilities'> {
  return {
    tool: text(payload, 'tool') ?? '',
    role: text(payload, 'role_name') ?? text(payload, 'role') ?? 'worker',
    name: text(payload, 'name'),
    capabilities: texts(payload, 'capabilities'),
  };
}

function register(draft: Draft, event: LogEvent): void {
  const id = text(event.payload, 'id');
  if (!id) return;
  draft.agents.set(id, {
    id,
    ...profile(event.payload),
    status: 'idle',
    currentTask: undefined,
    paused: draft.agents.get(id)?.paused,
    joinedAt: event.at,
    holding: draft.agents.get(id)?.holding ?? 0,
    since: event.at,
    lastEvent: event.at,
  });
}

function pause(draft: Draft, { payload, at }: LogEvent): void {
  const paused = { by: text(payload, 'paused_by') ?? '', reason: text(payload, 'reason'), since: at };
  draft.agents.change(text(payload, 'agent'), (agent) => ({ ...agent, paused }));
}

function setStatus(draft: Draft, id: string | undefined, status: AgentStatus, at: number): void {
  draft.agents.change(id, (agent) => withStatus(agent, status, at));
}

function withStatus(agent: Agent, status: AgentStatus, at: number): Agent {
  return agent.status === status ? agent : { ...agent, status, since: at };
}

function statusSet(draft: Draft, { payload, at }: LogEvent): void {
  const status = text(payload, 'status') as AgentStatus | undefined;
  const task = text(payload, 'current_task');
  draft.agents.change(text(payload, 'agent'), (agent) => ({
    ...withStatus(agent, status ?? agent.status, at),
    currentTask: task ?? (payload['clears_task'] === true ? undefined : agent.currentTask),
  }));
}

function worksOn(draft: Draft, id: string | undefined, task: string | undefined, at: number): void {
  draft.agents.change(id, (agent) => ({
    ...(agent.status === 'offline' ? agent : withStatus(agent, 'working', at)),
    currentTask: task,
  }));
}

function gaveUp(draft: Draft, id: string | undefined, task: string | undefined, at: number): void {
  draft.agents.change(id, (agent) => {
    const holding = Math.max(0, agent.holding - 1);
    const idle = holding === 0 && agent.status !== 'offline';
    return {
      ...(idle ? withStatus(agent, 'idle', at) : agent),
      holding,
      currentTask: agent.currentTask === task ? undefined : agent.currentTask,
    };
  });
}

// Tasks.

function state(payload: Payload, field: string, otherwise: TaskState): TaskState {
  return (text(payload, field) as TaskState | undefined) ?? otherwise;
}

function addressed(payload: Payload, field: string): string | undefined {
  const address = text(payload, field);
  return address === undefined ? undefined : plain(address);
}

function create(draft: Draft, { payload, at, run }: LogEvent): void {
  const id = text(payload, 'task');
  if (!id) return;
  draft.tasks.set(id, {
    id,
    run: text(payload, 'run') ?? run,
    title: text(payload, 'title') ?? '',
    description: text(payload, 'description') ?? '',
    assignedBy: text(payload, 'assigned_by') ?? '',
    state: 'pending',
    reservedFor: undefined,
    holder: undefined,
    workedBy: undefined,
    fence: undefined,
    resources: texts(payload, 'resources'),
    dependsOn: texts(payload, 'depends_on'),
    waitingOn: texts(payload, 'waiting_on').sort(),
    createdAt: at,
    startedAt: undefined,
    completedAt: undefined,
    reason: undefined,
    waitingFor: undefined,
    outcome: undefined,
    attempt: 1,
    since: at,
  });
}

function reserve(draft: Draft, task: string | undefined, agent: string | undefined): void {
  draft.tasks.change(task, (row) => ({ ...row, reservedFor: agent }));
}

function claim(draft: Draft, { payload, at, seq }: LogEvent, task: string | undefined): void {
  const agent = text(payload, 'agent');
  const from = text(payload, 'from');
  draft.tasks.change(task, (row) => ({ ...row, reservedFor: undefined, workedBy: agent, holder: agent, fence: seq }));
  draft.agents.change(agent, (row) => ({ ...row, holding: row.holding + 1 }));
  // One that waits for others is worked on when it is started.
  const waits = payload['blocked'] === true;
  if (!waits) worksOn(draft, agent, task, at);
  if (from !== agent) gaveUp(draft, from, task, at);
}

function moved(draft: Draft, { payload, at }: LogEvent, task: string | undefined, holder: string | undefined): void {
  draft.tasks.change(task, (row) => ({
    ...row,
    state: state(payload, 'to', row.state),
    reason: text(payload, 'reason'),
    waitingFor: text(payload, 'waiting_for'),
    since: at,
  }));
  const live = holder !== undefined && draft.agents.get(holder)?.status !== 'offline';
  if (live && text(payload, 'to') === 'review') setStatus(draft, holder, 'waiting_review', at);
}

function anew(row: Task, attempt: number, at: number): Task {
  return {
    ...row,
    workedBy: heldBy(row) ?? row.workedBy,
    state: 'pending',
    holder: undefined,
    fence: undefined,
    reservedFor: undefined,
    reason: undefined,
    waitingFor: undefined,
    completedAt: undefined,
    attempt,
    since: at,
  };
}

function retried(draft: Draft, { payload, at }: LogEvent, task: string | undefined): void {
  const byItself = number(payload, 'not_before') !== undefined;
  draft.tasks.change(task, (row) => ({
    ...anew(row, number(payload, 'attempt') ?? row.attempt, at),
    reason: byItself ? row.reason : undefined,
  }));
}

function reopened(draft: Draft, event: LogEvent, task: string | undefined, holder: string | undefined): void {
  const { payload, at } = event;
  gaveUp(draft, holder, task, at);
  draft.tasks.change(task, (row) => ({ ...anew(row, number(payload, 'attempt') ?? row.attempt, at), outcome: undefined }));
  for (const other of texts(payload, 'blocks')) {
    draft.tasks.change(other, (row) => ({ ...row, waitingOn: withEntry(row.waitingOn, task) }));
  }
}

function ended(
  draft: Draft, { at }: LogEvent, task: string | undefined, holder: string | undefined, to: TaskState,
  reason: string | undefined,
): void {
  gaveUp(draft, holder, task, at);
  draft.tasks.change(task, (row) => ({
    ...row,
    workedBy: heldBy(row) ?? row.workedBy,
    state: to,
    reason,
    waitingFor: undefined,
    holder: undefined,
    fence: undefined,
    reservedFor: undefined,
    completedAt: isOpen(to) || to === 'failed' ? row.completedAt : at,
    since: at,
  }));
}

function completed(draft: Draft, event: LogEvent, task: string | undefined, holder: string | undefined): void {
  ended(draft, event, task, holder, 'completed', undefined);
  draft.tasks.change(task, (row) => ({ ...row, outcome: text(object(event.payload, 'outcome'), 'text') }));
  unblock(draft, texts(event.payload, 'unblocks'), task);
}

function unblock(draft: Draft, tasks: string[], finished: string | undefined): void {
  for (const id of tasks) {
    draft.tasks.change(id, (row) => ({ ...row, waitingOn: row.waitingOn.filter((dep) => dep !== finished) }));
  }
}

/** A task is taken out of the plan; those that named it depend on what it depended on. */
function removeTask(draft: Draft, payload: Payload, task: string | undefined): void {
  if (!task) return;
  draft.tasks.remove(task);
  const rewired = payload['rewired'];
  if (!Array.isArray(rewired)) return;
  for (const entry of rewired as Payload[]) {
    const others = (list: string[]) => list.filter((dep) => dep !== task);
    draft.tasks.change(text(entry, 'task'), (row) => ({
      ...row,
      dependsOn: [...new Set([...others(row.dependsOn), ...texts(entry, 'gains')])],
      waitingOn: [...new Set([...others(row.waitingOn), ...texts(entry, 'waits')])].sort(),
    }));
  }
}

function withEntry(list: string[], entry: string | undefined): string[] {
  return entry === undefined || list.includes(entry) ? list : [...list, entry].sort();
}

// Files.

function resource(draft: Draft, { kind, payload, seq, at }: LogEvent): void {
  // A path that is known under a folded key is written with both.
  const path = text(payload, 'path') ?? text(object(payload, 'path'), 'shown');
  if (!path) return;
  const file = draft.files.get(path) ?? {
    path, claim: undefined, locked: false, conflict: undefined, lastModifiedBy: undefined, hash: '',
  };
  const set = (next: Partial<FileState>) => draft.files.set(path, { ...file, ...next });
  switch (kind) {
    case 'file.claimed': {
      const holder = text(payload, 'agent') ?? '';
      const handedOver = text(payload, 'from') !== undefined;
      return set({
        claim: { holder, since: at, fence: seq, task: text(payload, 'task') },
        hash: handedOver ? file.hash : (text(payload, 'hash') ?? ''),
      });
    }
    case 'file.released':
    case 'file.forced': return set({ claim: undefined });
    case 'file.locked': return set({ locked: true });
    case 'file.unlocked': return set({ locked: false });
    case 'file.modified':
      return set({ hash: text(payload, 'after') ?? '', lastModifiedBy: text(payload, 'by') ?? file.lastModifiedBy });
    case 'file.conflict_detected':
      return set({
        conflict: { holder: text(payload, 'holder') ?? '', intruder: text(payload, 'intruder') ?? '', since: at },
      });
    case 'file.conflict_resolved': {
      const winner = text(payload, 'winner');
      const passes = winner !== undefined && file.claim !== undefined && file.claim.holder !== winner;
      return set({
        conflict: undefined,
        ...(passes ? { claim: { holder: winner, since: at, fence: seq, task: undefined } } : {}),
      });
    }
  }
}

// Handoffs.

function offer(draft: Draft, { payload, at }: LogEvent): void {
  const id = text(payload, 'handoff');
  if (!id) return;
  draft.handoffs.set(id, {
    id,
    from: text(payload, 'from') ?? '',
    to: text(payload, 'to'),
    task: text(payload, 'task') ?? '',
    status: 'pending',
    summary: text(payload, 'summary') ?? '',
    filesModified: texts(payload, 'files_modified'),
    filesCreated: texts(payload, 'files_created'),
    context: text(payload, 'context') ?? '',
    blockers: texts(payload, 'blockers'),
    createdAt: at,
    answeredBy: undefined,
    reason: undefined,
  });
}

function answer(draft: Draft, payload: Payload, status: 'accepted' | 'rejected'): void {
  draft.handoffs.change(text(payload, 'handoff'), (handoff) => ({
    ...handoff,
    status,
    answeredBy: text(payload, 'by'),
    reason: status === 'rejected' ? (text(payload, 'reason') ?? '') : handoff.reason,
  }));
}
