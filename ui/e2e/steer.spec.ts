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
