import { expect, test } from './fixture';
import { assemble } from './team';
import { events } from './log';

test('a person approves, resolves, hands over and retries, each as an event of theirs', async ({ daemon, signedIn: page }) => {
  const { tasks } = await assemble(daemon);
  await page.goto(`${daemon.url}/ui/`);
  await expect(page.getByRole('heading', { name: 'Attention' })).toBeVisible();
  const row = (text: string) => page.locator('.matter').filter({ hasText: text });

  await row('asks for review').getByRole('button', { name: /Approve/ }).click();
  await expect(row('asks for review')).toHaveCount(0);
  await row('changed src/auth/token.rs').getByRole('button', { name: 'backend-2 keeps it' }).click();
  await expect(row('changed src/auth/token.rs')).toHaveCount(0);
  await row('End-to-end failed').getByRole('button', { name: 'Retry', exact: true }).click();
  await expect(row('End-to-end failed')).toHaveCount(0);
  await row('backend-2 is blocked').getByRole('button', { name: 'Let it go on' }).click();
  await expect(row('backend-2 is blocked')).toHaveCount(0);
  await row('hands over').getByRole('button', { name: 'Accept for' }).click();
  await row('hands over').getByRole('combobox').selectOption('docs-writer');
  await expect(row('hands over')).toHaveCount(0);
  await row('mentions you').getByRole('button', { name: 'Acknowledge' }).click();
  await expect(row('mentions you')).toHaveCount(0);

  const task = async (name: string) => daemon.call<{ state: string; assigned_to: string }>('GET', `/tasks/${tasks[name]}`);
  expect((await task('review')).state).toBe('completed');
  expect((await task('endToEnd')).state).toBe('pending');
  expect((await task('refresh')).state).toBe('in_progress');
  expect((await task('login')).assigned_to).toBe('docs-writer');
  const done = (await events(daemon)).filter((event) => event.actor === 'person:anna').map((event) => event.kind);
  expect(done).toEqual(expect.arrayContaining(['task.completed', 'file.conflict_resolved', 'task.retried', 'report.added']));
});

test('a document that somebody changed meanwhile is not overwritten', async ({ daemon, signedIn: page }) => {
  await daemon.call('POST', '/agents/announce', { id: 'writer', tool: 'codex' });
  const write = (text: string, version: number) => daemon.call('PUT', '/contexts/default/documents/notes.md', { text, version }, 'writer');
  await write('first', 0);
  await page.goto(`${daemon.url}/ui/documents/default/notes.md`);
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByRole('textbox', { name: 'Text of notes.md' }).fill('mine');
  await write('theirs', 1);
  await page.getByRole('button', { name: 'Save' }).click();
  await expect(page.getByRole('alert')).toContainText('writer wrote version 2 meanwhile');
  const body = () => daemon.call<{ text: string; author: string }>('GET', '/contexts/default/documents/notes.md');
  expect((await body()).text).toBe('theirs');
  await page.getByRole('button', { name: 'Keep mine and save over it' }).click();
  await page.getByRole('button', { name: 'Save' }).click();
  await expect(page.locator('.markdown')).toContainText('mine');
  expect(await body()).toMatchObject({ text: 'mine', author: 'person:anna' });
});

test('who did not come by a launch address can look and cannot act', async ({ daemon, page }) => {
  await daemon.call('POST', '/agents/announce', { id: 'backend-1', tool: 'codex' });
  await daemon.call('POST', '/channels/default/messages', { text: 'hello' }, 'backend-1');
  await page.goto(`${daemon.url}/ui/c/default`);
  await expect(page.getByRole('article')).toContainText('hello');
  await expect(page.getByText('You are looking on')).toBeVisible();
  await expect(page.getByRole('combobox', { name: /Message/ })).toHaveCount(0);
  const address = await daemon.launch();
  await page.goto(address);
  await expect(page.getByText('Operator, sees everything')).toBeVisible();
  expect(page.url()).not.toContain('#');
  await page.context().clearCookies();
  await page.goto('about:blank');
  await page.goto(address);
  await expect(page.getByText(/was used already/)).toBeVisible();
});

test('a failed task is failed everywhere, since it failed', async ({ daemon, signedIn: page }) => {
  const { tasks } = await assemble(daemon);
  const { state, state_since } = await daemon.call<{ state: string; state_since: number }>('GET', `/tasks/${tasks['endToEnd']}`);
  const failed = (await events(daemon)).find((event) => event.kind === 'task.failed');
  expect([state, state_since]).toEqual(['failed', failed?.at]);
  await page.goto(`${daemon.url}/ui/tasks`);
  const lane = page.getByRole('region', { name: 'Failed', exact: true });
  await expect(lane.locator('.task-card')).toHaveText([/End-to-end.*failed for \d+s/s]);
  await expect(page.getByRole('region', { name: 'Blocked', exact: true })).toContainText('Refresh path');
  await page.getByRole('combobox', { name: 'State' }).selectOption('Failed');
  await expect(page).toHaveURL(/state=failed/);
  await expect(page.locator('.task-card')).toHaveCount(1);
});

test('a closer look at a matter has its own events, however long ago they were', async ({ daemon, signedIn: page }) => {
  await assemble(daemon);
  const report = (number: number) => daemon.call('POST', '/events', { agent_id: 'planner', action: 'x.count', metadata: { number } });
  for (let from = 0; from < 1500; from += 100) await Promise.all(Array.from({ length: 100 }, (_, index) => report(from + index)));
  await page.goto(`${daemon.url}/ui/attention`);
  const row = (text: string) => page.locator('.matter').filter({ hasText: text });
  const peek = async (text: string, said: RegExp) => {
    await row(text).getByRole('link').first().focus();
    await page.locator('.main h1').click();
    await page.keyboard.press(' ');
    await expect(row(text).locator('.peek')).toContainText(said);
  };
  await peek('asks for review', /Review the schema is in review/);
  await peek('changed src/auth/token.rs', /frontend-1 changed src\/auth\/token.rs/);
  await peek('mentions you', /Approve before I merge/);
});

test('the rail shows names in full, and counts that are not cut', async ({ daemon, signedIn: page }) => {
  await assemble(daemon);
  await daemon.call('POST', '/agents/announce', { id: 'claude-frontend-1', tool: 'claude-code' });
  const { id } = await daemon.call<{ id: string }>('POST', '/tasks', { title: 'Rewrite the whole of the session handling', assigned_by: 'planner', assigned_to: 'claude-frontend-1' }, 'planner');
  await daemon.call('PATCH', `/tasks/${id}`, { status: 'in_progress', agent_id: 'claude-frontend-1' });
  for (let number = 0; number < 11; number += 1) {
    await daemon.call('POST', '/resources/claim', { path: `src/file-${number}.rs`, agent_id: 'backend-1' });
    await daemon.call('POST', '/events', { agent_id: 'frontend-1', action: 'resource.modified', resource: `src/file-${number}.rs`, before_hash: 'a'.repeat(64), after_hash: 'b'.repeat(64) });
  }
  await page.goto(`${daemon.url}/ui/tasks`);
  const rail = page.locator('.rail');
  const isWhole = (text: string | RegExp) => rail.getByText(text, { exact: true }).evaluate((node) => {
    const box = node.getBoundingClientRect();
    return node.scrollWidth <= node.clientWidth + 1 && box.right <= (node.closest('a')?.getBoundingClientRect().right ?? 0);
  });
  await expect(rail.getByText('12 conflicts')).toBeVisible();
  expect(await isWhole('12 conflicts')).toBe(true);
  await expect(rail.getByText('claude-frontend-1', { exact: true })).toBeVisible();
  expect(await isWhole('claude-frontend-1')).toBe(true);
});
