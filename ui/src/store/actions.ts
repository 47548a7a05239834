// What a person does. Each is a call that becomes an event with the person as its author; what came of it arrives by the log,
// as it does for everybody else.

import { ApiError, path, send } from '../api/client';
import { ACKNOWLEDGED, current } from './store';
import { tell } from './toasts';

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

const me = () => `person:${current().session.person ?? ''}`;

export const say = (channel: string, text: string, replyTo?: string) =>
  send('POST', path`/channels/${channel}/messages`, { text, ...(replyTo ? { reply_to: replyTo } : {}) });

export const acknowledge = (key: string) =>
  act('Acknowledged', () => send('POST', '/events', { agent_id: me(), action: ACKNOWLEDGED, metadata: { of: key } }));

export const approve = (task: string, holder: string) =>
  act('Approved', () => send('PATCH', path`/tasks/${task}`, { status: 'done', agent_id: holder }));

export const sendBack = (task: string, holder: string) =>
  act('Sent back to work', () => send('PATCH', path`/tasks/${task}`, { status: 'in_progress', agent_id: holder }));

export const resume = (task: string, holder: string) =>
  act('It goes on', () => send('PATCH', path`/tasks/${task}`, { status: 'in_progress', agent_id: holder }));

export const retry = (task: string) => act('Put back into the queue', () => send('POST', path`/tasks/${task}/retry`));

export const cancel = (task: string, reason: string) =>
  act('Cancelled', () => send('POST', path`/tasks/${task}/cancel`, reason ? { reason } : {}));

export const assign = (task: string, agent: string) =>
  act(`Given to ${agent}`, () => send('POST', path`/tasks/${task}/assign`, { agent_id: agent }));

export const release = (file: string, holder: string) =>
  act('Released', () => send('POST', '/resources/release', { path: file, agent_id: holder }));

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

export const stopAgent = (team: string, name: string) =>
  act(`${name} is asked to stop`, () => send('POST', path`/teams/${team}/stop`, { agent: name, reason: 'asked for in the web UI' }));

export const createTask = (title: string, assignedTo: string | undefined) =>
  act('Asked for', () =>
    send('POST', '/tasks', { title, assigned_by: me(), ...(assignedTo ? { assigned_to: assignedTo } : {}) }));

export const dismissAgent = (agent: string) => act(`${agent} is out of the team`, () => send('DELETE', path`/agents/${agent}`));
