// What the team looks like at one position: agents, tasks, files and handoffs, as the daemon's `/state` shows them.

import type { components } from '../api/schema';

type Wire = components['schemas'];

export type AgentStatus = Wire['AgentStatus'];
export type TaskState =
  | 'pending' | 'planning' | 'in_progress' | 'review' | 'paused' | 'completed' | 'failed' | 'skipped' | 'cancelled';

export interface Paused { by: string; reason: string | undefined; since: number }

export interface Agent {
  id: string;
  tool: string;
  role: string;
  name: string | undefined;
  status: AgentStatus;
  currentTask: string | undefined;
  capabilities: string[];
  /** It finishes what it has and gets nothing new. */
  paused: Paused | undefined;
  joinedAt: number;
  /** How many tasks it has claimed. */
  holding: number;
  /** When its status last changed, as far as this page has seen. */
  since: number;
  /** When it last did something that is in the log, as far as this page has seen. */
  lastEvent: number;
}

export interface Task {
  id: string;
  run: string;
  title: string;
  description: string;
  assignedBy: string;
  state: TaskState;
  reservedFor: string | undefined;
  holder: string | undefined;
  workedBy: string | undefined;
  /** The seq of the grant. */
  fence: number | undefined;
  resources: string[];
  dependsOn: string[];
  waitingOn: string[];
  createdAt: number;
  startedAt: number | undefined;
  completedAt: number | undefined;
  reason: string | undefined;
  waitingFor: string | undefined;
  outcome: string | undefined;
  attempt: number;
  /** When its state last changed, as far as this page has seen. */
  since: number;
}

export interface Claim {
  holder: string;
  since: number;
  fence: number;
  task: string | undefined;
}

export interface FileState {
  path: string;
  claim: Claim | undefined;
  locked: boolean;
  conflict: { holder: string; intruder: string; since: number } | undefined;
  lastModifiedBy: string | undefined;
  hash: string;
}

export interface Handoff {
  id: string;
  from: string;
  to: string | undefined;
  task: string;
  status: Wire['HandoffStatus'];
  summary: string;
  filesModified: string[];
  filesCreated: string[];
  context: string;
  blockers: string[];
  createdAt: number;
  answeredBy: string | undefined;
  reason: string | undefined;
}

export interface World {
  seq: number;
  lead: string | undefined;
  agents: ReadonlyMap<string, Agent>;
  tasks: ReadonlyMap<string, Task>;
  files: ReadonlyMap<string, FileState>;
  handoffs: ReadonlyMap<string, Handoff>;
}

export const NOTHING: World = {
  seq: 0,
  lead: undefined,
  agents: new Map(),
  tasks: new Map(),
  files: new Map(),
  handoffs: new Map(),
};

export const DEFAULT_RUN = 'run_default';

export function isOpen(state: TaskState): boolean {
  return state === 'pending' || state === 'planning' || state === 'in_progress' || state === 'review' || state === 'paused';
}

/** Whether it is over and done with; what failed may be tried again. */
export function hasEnded(task: Task): boolean {
  return task.state === 'completed' || task.state === 'skipped' || task.state === 'cancelled';
}

/** Who a task belongs to right now, be it claimed or only kept for somebody. */
export function heldBy(task: Task): string | undefined {
  return task.holder ?? task.reservedFor;
}

/** Who is shown as working, or having worked, on it. */
export function assignee(task: Task): string | undefined {
  return heldBy(task) ?? (isOpen(task.state) ? undefined : task.workedBy);
}

/** The world that a snapshot describes. What only the log tells is as good as unknown there. */
export function fromSnapshot(state: Wire['StateSnapshot'], seq: number): World {
  const tasks = state.tasks.map(taskFrom);
  const holding = new Map<string, number>();
  for (const task of tasks) {
    if (task.holder) holding.set(task.holder, (holding.get(task.holder) ?? 0) + 1);
  }
  return {
    seq,
    lead: state.lead ?? undefined,
    agents: byId(state.agents.map((agent) => agentFrom(agent, holding.get(agent.id) ?? 0))),
    tasks: byId(tasks),
    files: new Map(state.resources.map((file) => [file.path, fileFrom(file)])),
    handoffs: byId(state.handoffs.map(handoffFrom)),
  };
}

function byId<T extends { id: string }>(rows: T[]): Map<string, T> {
  return new Map(rows.map((row) => [row.id, row]));
}

function agentFrom(agent: Wire['Agent'], holding: number): Agent {
  return {
    id: agent.id,
    tool: agent.tool,
    role: agent.role,
    name: agent.name ?? undefined,
    status: agent.status,
    currentTask: agent.current_task ?? undefined,
    capabilities: agent.capabilities,
    paused: agent.paused ? { by: agent.paused.by, reason: agent.paused.reason ?? undefined, since: agent.paused.since } : undefined,
    joinedAt: agent.joined_at,
    holding,
    since: agent.joined_at,
    lastEvent: agent.joined_at,
  };
}

function taskFrom(task: Wire['Task']): Task {
  const state = task.state as TaskState;
  const assigned = task.assigned_to ?? undefined;
  const open = isOpen(state);
  const claimed = task.fence != null;
  return {
    id: task.id,
    run: task.run_id ?? DEFAULT_RUN,
    title: task.title,
    description: task.description,
    assignedBy: task.assigned_by,
    state,
    reservedFor: open && !claimed ? assigned : undefined,
    holder: claimed ? assigned : undefined,
    workedBy: assigned,
    fence: task.fence ?? undefined,
    resources: task.resources,
    dependsOn: task.depends_on,
    waitingOn: task.waiting_on ?? [],
    createdAt: task.created_at,
    startedAt: task.started_at ?? undefined,
    completedAt: task.completed_at ?? undefined,
    reason: task.reason ?? undefined,
    waitingFor: undefined,
    outcome: task.outcome ?? undefined,
    attempt: task.attempt,
    since: task.state_since,
  };
}

function fileFrom(file: Wire['Resource']): FileState {
  const claim =
    file.owner == null
      ? undefined
      : { holder: file.owner, since: file.claimed_at ?? 0, fence: file.fence ?? 0, task: file.task_id ?? undefined };
  return {
    path: file.path,
    claim,
    locked: file.state === 'locked',
    conflict: file.conflict
      ? { holder: file.conflict.holder, intruder: file.conflict.intruder, since: file.conflict.since }
      : undefined,
    lastModifiedBy: file.last_modified_by ?? undefined,
    hash: file.content_hash,
  };
}

function handoffFrom(handoff: Wire['Handoff']): Handoff {
  return {
    id: handoff.id,
    from: handoff.from_agent,
    to: handoff.to_agent ?? undefined,
    task: handoff.task_id,
    status: handoff.status,
    summary: handoff.summary,
    filesModified: handoff.files_modified,
    filesCreated: handoff.files_created,
    context: handoff.context,
    blockers: handoff.blockers,
    createdAt: handoff.created_at,
    answeredBy: handoff.answered_by ?? undefined,
    reason: handoff.reason ?? undefined,
  };
}
