// What a person does. Each is a call that becomes an event with the person as its author; what came of it arrives by the log,
// as it does for everybody else.

import { ApiError, download as fetchFile, path, send } from '../api/client';
import { instanceOf } from './instance';
import { mentionOf } from './mentions';
import { ACKNOWLEDGED, current, signedOut } from './store';
import { tell } from './toasts';
import type { Task } from './world';

async function act(done: string, work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    tell(done);
    return true;
  } catch (error) {
    const hint = error instanceof ApiError && error.hint ? ` (${error.hint})` : '';
    tell(`${error instanceof Error ? error.message : 'it did not work'}${hint}`, 'bad');
    return false;
  }
}

export const download = (from: string, name: string) => act('Downloaded', () => fetchFile(from, name));

/** Ends the session of a browser. */
export const signOut = (session: string) => act('Signed out', () => send('DELETE', path`/sessions/${session}`));

/** Ends the session of this browser, and forgets its cookie. */
export const signOutHere = () => act('Signed out', () => send('DELETE', '/session').then(signedOut));

const me = () => `person:${current().session.person ?? ''}`;

/** A message that reaches one agent, in the channel of its instance. */
const tellAgent = (agent: string, text: string) => {
  const channel = instanceOf(agent);
  return say(channel, `@${mentionOf(agent, channel, current().world.agents)} ${text}`);
};

export const ask = (agent: string, text: string) => act(`${agent} is asked`, () => tellAgent(agent, text));

export const say = (channel: string, text: string, replyTo?: string) =>
  send('POST', path`/channels/${channel}/messages`, { text, ...(replyTo ? { reply_to: replyTo } : {}) });

export const acknowledge = (key: string) =>
  act('Acknowledged', () => send('POST', '/events', { agent_id: me(), action: ACKNOWLEDGED, metadata: { of: key } }));

export const approve = (task: string, holder: string) =>
  act('Approved', () => send('PATCH', path`/tasks/${task}`, { status: 'done', agent_id: holder }));

/** What should change is said to the holder, where everybody reads it. */
export const sendBack = (task: Task, holder: string, what: string) =>
  act('Sent back to work', async () => {
    await send('PATCH', path`/tasks/${task.id}`, { status: 'in_progress', agent_id: holder });
    if (what) await tellAgent(holder, `${task.title} needs changes: ${what}`);
  });

const blocked = (task: string, holder: string) =>
  send('PATCH', path`/tasks/${task}`, { status: 'blocked', agent_id: holder, reason: `paused by ${current().session.person ?? 'a person'}` });

export const pauseTask = (task: string, holder: string) => act('Paused', () => blocked(task, holder));

export const resume = (task: string, holder: string) =>
  act('It goes on', () => send('PATCH', path`/tasks/${task}`, { status: 'in_progress', agent_id: holder }));

export const retry = (task: string) => act('Put back into the queue', () => send('POST', path`/tasks/${task}/retry`));

export const cancel = (task: string, reason: string) =>
  act('Cancelled', () => send('POST', path`/tasks/${task}/cancel`, reason ? { reason } : {}));

/** With its subtasks and all that depends on it. */
export const beginAnew = (run: string, task: string) =>
  act('It begins anew', () => send('POST', path`/clutch/v0/runs/${run}/retry`, { task_id: task }));

export const assign = (task: string, agent: string) =>
  act(`Given to ${agent}`, () => send('POST', path`/tasks/${task}/assign`, { agent_id: agent }));

export const release = (file: string, holder: string) =>
  act('Released', () => send('POST', '/resources/release', { path: file, agent_id: holder }));

export const releaseAll = (files: readonly string[], holder: string) =>
  act(`${files.length} files released`, async () => {
    for (const file of files) await send('POST', '/resources/release', { path: file, agent_id: holder });
  });

export const lock = (file: string) => act('Locked', () => send('POST', '/resources/lock', { path: file }));

export const unlock = (file: string) => act('Unlocked', () => send('POST', '/resources/unlock', { path: file }));

export const handOver = (file: string, agent: string) =>
  act(`Handed over to ${agent}`, () => send('POST', '/resources/claim', { path: file, agent_id: agent, force: true }));

export const resolve = (file: string, winner: string) =>
  act(`${winner} keeps it`, () => send('POST', '/resources/resolve', { path: file, winner }));

export const acceptHandoff = (handoff: string, agent: string) =>
  act(`Accepted for ${agent}`, () => send('PATCH', path`/handoffs/${handoff}/accept`, { agent_id: agent }));

export const rejectHandoff = (handoff: string, agent: string, reason: string) =>
  act('Rejected', () => send('PATCH', path`/handoffs/${handoff}/reject`, { agent_id: agent, reason }));

export const decideHeld = (message: string, verdict: 'deliver' | 'discard') =>
  act(verdict === 'deliver' ? 'Delivered' : 'Discarded', () => send('POST', path`/admin/messages/${message}/decision`, { verdict }));

/** It finishes what it has and gets nothing new. */
export const pauseAgent = (agent: string, reason: string) =>
  act(`${agent} is paused`, () => send('POST', path`/agents/${agent}/pause`, reason ? { reason } : {}));

export const resumeAgent = (agent: string) => act(`${agent} goes on`, () => send('POST', path`/agents/${agent}/resume`));

export const stopAgent = (team: string, name: string, reason: string) =>
  act(`${name} is asked to stop`, () => send('POST', path`/teams/${team}/stop`, { agent: name, ...(reason ? { reason } : {}) }));

/** One whose runner is gone, and who could not be asked to stop. */
export const forceEndTeam = (team: string) => act(`${team} is over`, () => send('POST', path`/teams/${team}/force-end`));

export const stopTeam = (team: string, reason: string) =>
  act(`${team} is asked to stop`, () => send('POST', path`/teams/${team}/stop`, reason ? { reason } : {}));

export const createTask = (title: string, assignedTo: string | undefined) =>
  act('Asked for', () =>
    send('POST', '/tasks', { title, assigned_by: me(), ...(assignedTo ? { assigned_to: assignedTo } : {}) }));

export const dismissAgent = (agent: string) => act(`${agent} is out of the team`, () => send('DELETE', path`/agents/${agent}`));
