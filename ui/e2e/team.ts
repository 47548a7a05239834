// A team at work, made by calls as real agents make them: every state that the views show is in it.

import type { Daemon } from './daemon';

export interface Team {
  tasks: Record<string, string>;
  handoff: string;
  /** By their hashes. */
  artifacts: { patch: string; page: string };
}

const AGENTS: [string, string, string][] = [
  ['planner', 'claude-code', 'lead'],
  ['backend-1', 'claude-code', 'worker'],
  ['backend-2', 'codex', 'worker'],
  ['frontend-1', 'cursor', 'worker'],
  ['tester-1', 'cursor', 'worker'],
  ['reviewer', 'claude-code', 'specialist'],
  ['docs-writer', 'gemini', 'worker'],
];

const PATCH = `diff --git a/migrations/0042.sql b/migrations/0042.sql
--- a/migrations/0042.sql
+++ b/migrations/0042.sql
@@ -1,2 +1,2 @@
-alter table sessions add column legacy_token text;
+alter table sessions drop column legacy_token;
 -- nothing else
`;
const PAGE = '<!doctype html><h1>Coverage</h1><p>92 %</p><script>parent.document.title = "taken over"; fetch("/tasks", { method: "POST" })</script>';

export async function assemble(daemon: Daemon): Promise<Team> {
  for (const [id, tool, role] of AGENTS) {
    await daemon.call('POST', '/agents/announce', { id, tool, role, capabilities: id.startsWith('backend') ? ['skill:rust', 'skill:sql'] : ['skill:web'] });
  }
  const task = async (title: string, to: string | undefined, after: string[] = []) => {
    const { id } = await daemon.call<{ id: string }>('POST', '/tasks', { title, assigned_by: 'planner', depends_on: after, ...(to ? { assigned_to: to } : {}) }, 'planner');
    return id;
  };
  const move = (id: string, status: string, agent: string, more: object = {}) => daemon.call('PATCH', `/tasks/${id}`, { status, agent_id: agent, ...more });
  const say = (from: string, text: string, more: object = {}) => daemon.call<{ id: string }>('POST', '/channels/default/messages', { text, ...more }, from);
  const claim = (path: string, agent: string, task_id?: string) => daemon.call('POST', '/resources/claim', { path, agent_id: agent, ...(task_id ? { task_id } : {}) });

  await say('person', '@planner move sessions off the legacy token table. No downtime, and keep the old cookies valid for a week.');
  const plan = await task('Plan', 'planner');
  await move(plan, 'in_progress', 'planner');
  await move(plan, 'done', 'planner', { outcome: 'in decisions.md' });
  const schema = await task('Schema', 'backend-1', [plan]);
  const refresh = await task('Refresh path', 'backend-2', [plan]);
  const login = await task('Login form', 'frontend-1', [plan]);
  const review = await task('Review the schema', 'reviewer', [plan]);
  const endToEnd = await task('End-to-end', 'tester-1', [plan]);
  const docs = await task('Docs', undefined, [login, refresh]);
  const announced = await say('planner', 'Plan is in `decisions.md`. @backend-1 takes the schema, @backend-2 the refresh path, @reviewer signs off both before merge.');
  await say('backend-1', 'On it. The migration comes first.', { reply_to: announced.id });
  await say('reviewer', 'I look at both before they go in.', { reply_to: announced.id });
  await daemon.call('PUT', '/contexts/default/documents/decisions.md', { text: '# Decisions\n\n- Rotate on **every** refresh\n- Keep old cookies for a week\n', version: 0 }, 'planner');
  await daemon.call('PUT', '/contexts/default/documents/decisions.md', { text: '# Decisions\n\n- Rotate on **every** refresh\n- Keep old cookies for a week\n- Drop `legacy_token` last\n', version: 1 }, 'planner');

  await move(schema, 'in_progress', 'backend-1');
  await claim('src/auth/session.rs', 'backend-1', schema);
  await claim('src/auth/schema/', 'backend-1', schema);
  await move(login, 'in_progress', 'frontend-1');
  await claim('web/login.tsx', 'frontend-1', login);
  await move(refresh, 'in_progress', 'backend-2');
  await claim('src/auth/token.rs', 'backend-2', refresh);
  await move(endToEnd, 'in_progress', 'tester-1');
  await envelope(daemon, 'tester-1', 'task.error', endToEnd, { code: 'TESTS_FAILED', message: 'refresh_rotates_family: left 1, right 2', retryable: false });
  await say('tester-1', 'The end-to-end run failed:\n```\ntest session::refresh_rotates_family ... FAILED\n  left: 1, right: 2   at crates/auth/tests/session.rs:142\n```');
  await envelope(daemon, 'person', 'task.request', `tk_rotate_${Date.now()}`, { title: 'Rotate token families', text: 'Rotate them' }, { requires: ['skill:rust'], to: 'agent:orchestrator' });
  await move(refresh, 'blocked', 'backend-2', { reason: 'needs src/auth/session.rs' });
  await daemon.call('PATCH', '/agents/backend-2/status', { status: 'blocked' });
  await say('backend-2', 'I need the refresh path in `src/auth/session.rs`, but @backend-1 holds the claim.');
  await daemon.call('POST', '/events', { agent_id: 'frontend-1', action: 'resource.modified', resource: 'src/auth/token.rs', before_hash: 'a'.repeat(64), after_hash: 'b'.repeat(64) });
  const { id: handoff } = await daemon.call<{ id: string }>('POST', '/handoffs', { from_agent: 'frontend-1', task_id: login, summary: 'Form works, styles are half done', files_modified: ['web/login.tsx'], blockers: ['no design for errors yet'], context: 'The form posts to `/session`.' });
  const artifacts = { patch: await daemon.upload(PATCH), page: await daemon.upload(PAGE) };
  const attachments = [{ kind: 'artifact_ref', ref: `artifact:sha256-${artifacts.patch}` }];
  await envelope(daemon, 'backend-1', 'task.progress', schema, { progress: 0.6, text: 'The migration is ready to be looked at' }, { attachments });
  await move(review, 'in_progress', 'reviewer');
  await move(review, 'review', 'reviewer');
  await say('reviewer', '@anna the schema change drops `sessions.legacy_token`. Nothing reads it since v41. Approve before I merge?');
  return { tasks: { plan, schema, refresh, login, review, endToEnd, docs }, handoff, artifacts };
}

/** A message of the protocol, as an agent or the person at the keyboard sends it. */
export async function envelope(daemon: Daemon, from: string, type: string, task: string, payload: object, more: { requires?: string[]; to?: string; attachments?: object[] } = {}): Promise<void> {
  const { to = 'agent:planner', ...rest } = more;
  const message = {
    v: 'clutch/0.1', id: `msg_${crypto.randomUUID()}`, ts: new Date().toISOString(), thread_id: 'thr_default', run_id: 'run_default', task_id: task,
    from: { agent_id: from === 'person' ? 'person:local' : `agent:${from}` }, to: [{ agent_id: to }], type, payload, ...rest,
  };
  await daemon.call('POST', '/clutch/v0/messages', message, from);
}
