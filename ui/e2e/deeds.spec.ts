// Every deed of a person is an event with the person as its author.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Locator } from '@playwright/test';
import { expect, test } from './fixture';
import { events } from './log';
import { assemble } from './team';

/** Answers the question that a button asks, and does it. */
async function because(place: Locator, label: string, why: string): Promise<void> {
  await place.getByRole('button', { name: label, exact: true }).click();
  await place.getByRole('textbox').last().fill(why);
  await place.locator('.ask').getByRole('button', { name: label, exact: true }).click();
}

test('files are released, handed over, locked and asked for', async ({ daemon, signedIn: page }) => {
  await assemble(daemon);
  const main = page.locator('.main');
  await page.goto(`${daemon.url}/ui/files/src/auth/session.rs`);
  await expect(main).toContainText('backend-2 for Refresh path');
  await main.getByRole('button', { name: 'Ask backend-1 to release' }).click();
  await main.getByRole('button', { name: 'Hand over' }).click();
  await main.getByRole('combobox', { name: 'Hand over' }).selectOption('backend-2');
  await expect(main).toContainText('Held by');
  await expect(main.locator('.facts')).toContainText('backend-2 since');
  await main.getByRole('button', { name: 'Release', exact: true }).click();
  await main.getByRole('button', { name: 'Lock', exact: true }).click();
  await expect(main.getByRole('button', { name: 'Unlock' })).toBeVisible();
  const done = (await events(daemon)).filter((event) => event.actor === 'person:anna').map((event) => event.kind);
  expect(done).toEqual(expect.arrayContaining(['message.sent', 'file.forced', 'file.released', 'file.locked']));
});

test('tasks are reassigned, sent back, paused, let go on and cancelled with a reason', async ({ daemon, signedIn: page }) => {
  const { tasks } = await assemble(daemon);
  const bar = page.locator('.main .bar');
  const task = (name: string) => daemon.call<{ state: string; assigned_to: string; reason: string }>('GET', `/tasks/${tasks[name]}`);
  await page.goto(`${daemon.url}/ui/tasks/${tasks['review']}`);
  await because(bar, 'Request changes', 'keep the column for a week');
  await expect.poll(async () => (await task('review')).state).toBe('in_progress');
  await bar.getByRole('button', { name: 'Pause', exact: true }).click();
  await expect.poll(async () => (await task('review')).reason).toBe('paused by anna');
  await bar.getByRole('button', { name: 'Let it go on' }).click();
  await expect.poll(async () => (await task('review')).state).toBe('in_progress');
  await bar.getByRole('button', { name: 'Reassign' }).click();
  await bar.getByRole('combobox').selectOption('docs-writer');
  await expect.poll(async () => (await task('review')).assigned_to).toBe('docs-writer');
  await because(bar, 'Cancel', 'not needed any more');
  await expect.poll(async () => (await task('review')).state).toBe('cancelled');
  expect((await task('review')).reason).toBe('not needed any more');
  const log = await events(daemon);
  const done = log.filter((event) => event.actor === 'person:anna').map((event) => event.kind);
  expect(done).toEqual(expect.arrayContaining(['task.started', 'task.step_set', 'message.sent', 'task.reassigned', 'task.cancelled']));
  expect(log.some((event) => event.kind === 'message.sent' && String(event.payload['text']).includes('keep the column for a week'))).toBe(true);
});

test('a handoff is rejected with a reason', async ({ daemon, signedIn: page }) => {
  const { tasks } = await assemble(daemon);
  const { id } = await daemon.call<{ id: string }>('POST', '/handoffs', { from_agent: 'backend-1', to_agent: 'docs-writer', task_id: tasks['schema'], summary: 'Take the schema' });
  await page.goto(`${daemon.url}/ui/handoffs/${id}`);
  const main = page.locator('.main');
  await because(main, 'Reject', 'docs-writer has no time');
  await expect(main).toContainText('docs-writer has no time');
  expect(await daemon.call('GET', `/handoffs/${id}`)).toMatchObject({ status: 'rejected', reason: 'docs-writer has no time' });
  const rejected = (await events(daemon)).find((event) => event.kind === 'handoff.rejected');
  expect(rejected?.actor).toBe('person:anna');
});

test('an agent is paused and goes on, and is never shown as if it waited for somebody', async ({ daemon, signedIn: page }) => {
  await assemble(daemon);
  await page.goto(`${daemon.url}/ui/agents/docs-writer`);
  const card = page.getByRole('region', { name: 'docs-writer' });
  await because(card, 'Pause', 'the budget');
  await expect(card).toContainText('by anna: the budget');
  const row = page.locator('.rail').getByRole('link', { name: /docs-writer/ });
  await expect(row).toContainText('Paused');
  await expect(row.getByRole('img', { name: 'paused' })).toBeVisible();
  expect(await daemon.call('GET', '/agents/docs-writer')).toMatchObject({ paused: { by: 'person:anna', reason: 'the budget' } });
  await card.getByRole('button', { name: 'Let it go on' }).click();
  await expect(row).toContainText('Idle');
  const done = (await events(daemon)).filter((event) => event.actor === 'person:anna').map((event) => event.kind);
  expect(done).toEqual(['agent.paused', 'agent.resumed']);
});

const FILE = `name: greeting
agents:
  greeter:
    backend: mock
    script:
      - do:
          - send: hello, everybody
kickoff: "@greeter say hello"
`;

test('a workflow file is looked through, started and stopped', async ({ daemon, signedIn: page }) => {
  writeFileSync(join(daemon.folder, 'hello.yaml'), FILE);
  writeFileSync(join(daemon.folder, 'broken.yaml'), 'name: broken\nagents:\n  a:\n    backend: nothing\n');
  await page.goto(`${daemon.url}/ui/start`);
  const main = page.locator('.main');
  await main.getByRole('button', { name: 'broken.yaml' }).click();
  await main.getByRole('button', { name: 'See what it would do' }).click();
  await expect(main.getByRole('status')).toContainText('broken.yaml:4:');
  await expect(main.getByRole('button', { name: 'Start @' })).toBeDisabled();
  await main.getByRole('button', { name: 'hello.yaml' }).click();
  await main.getByLabel('Team').fill('hi');
  await main.getByRole('button', { name: 'See what it would do' }).click();
  await expect(main.getByRole('status')).toContainText('greeting can be started');
  await main.getByRole('button', { name: 'Start @hi' }).click();
  await expect(page).toHaveURL(/\/ui\/c\/hi$/, { timeout: 50_000 });
  await expect(page.getByRole('article').filter({ hasText: 'hello, everybody' })).toBeVisible();
  await page.goto(`${daemon.url}/ui/start`);
  await because(main.getByRole('row', { name: /@hi/ }), 'Stop', 'enough');
  await expect(main.getByRole('row', { name: /@hi/ })).toContainText('stopped');
  const done = (await events(daemon)).filter((event) => event.actor === 'person:anna').map((event) => event.kind);
  expect(done).toEqual(expect.arrayContaining(['team.start_requested', 'team.stop_requested']));
  const turns = (await events(daemon)).filter((event) => event.kind.startsWith('turn.'));
  expect(turns.length).toBeGreaterThan(1);
  expect(new Set(turns.map((event) => event.actor))).toEqual(new Set(['greeter@hi']));
});

const ASKING = `name: asking
params:
  - name: task
    description: What to build
    required: true
agents:
  greeter:
    backend: mock
    script:
      - do:
          - send: hello
kickoff: "@greeter build ${'${{ params.task }}'}"
`;

test('a workflow file that lacks a parameter cannot be started until the form has it', async ({ daemon, signedIn: page }) => {
  writeFileSync(join(daemon.folder, 'asking.yaml'), ASKING);
  await page.goto(`${daemon.url}/ui/start`);
  const main = page.locator('.main');
  await main.getByRole('button', { name: 'asking.yaml' }).click();
  await main.getByRole('button', { name: 'See what it would do' }).click();
  await expect(main.getByRole('status')).toContainText('asking cannot be started');
  await expect(main.getByRole('status')).toContainText('Missing required parameter: task');
  await expect(main.getByRole('button', { name: 'Start @' })).toBeDisabled();
  await main.getByRole('textbox', { name: 'task' }).fill('a shop, "quickly"');
  await main.getByRole('button', { name: 'See what it would do' }).click();
  await expect(main.getByRole('status')).toContainText('asking can be started');
  await expect(main.getByRole('status')).toContainText('@greeter build a shop, "quickly"');
  await expect(main.getByRole('button', { name: 'Start @' })).toBeEnabled();
});

test('a workflow file whose program is not installed cannot be started, and says which', async ({ daemon, signedIn: page }) => {
  const file = 'name: lint\nagents:\n  linter:\n    backend: command\n    command: [absent-linter, --all]\nkickoff: "@linter look"\n';
  writeFileSync(join(daemon.folder, 'lint.yaml'), file);
  await page.goto(`${daemon.url}/ui/start`);
  const main = page.locator('.main');
  await main.getByRole('button', { name: 'lint.yaml' }).click();
  await main.getByRole('button', { name: 'See what it would do' }).click();
  await expect(main.getByRole('status')).toContainText('lint cannot be started');
  await expect(main.getByRole('status')).toContainText('The program absent-linter of linter is not installed');
  await expect(main.getByRole('button', { name: 'Start @' })).toBeDisabled();
});
