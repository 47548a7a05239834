import { expect, test } from './fixture';
import { events } from './log';
import { Mcp } from './mcp';
import { assemble } from './team';

test('Attention is worked through by the keyboard alone', async ({ daemon, signedIn: page }) => {
  const { tasks } = await assemble(daemon);
  await page.goto(`${daemon.url}/ui/attention`);
  const chosen = page.locator('.matter.chosen');
  await expect(chosen).toContainText('backend-2 is blocked');
  await page.keyboard.press('j');
  await expect(chosen).toContainText('asks for review');
  await page.keyboard.press(' ');
  await expect(chosen.locator('.peek')).toContainText('took Review the schema');
  await page.keyboard.press('a');
  await expect(page.locator('.matter').filter({ hasText: 'asks for review' })).toHaveCount(0);
  await page.keyboard.press('k');
  await expect(chosen).toContainText('backend-2 is blocked');
  await page.keyboard.press('e');
  await expect(page.locator('.matter').filter({ hasText: 'backend-2 is blocked' })).toHaveCount(0);
  const done = (await events(daemon)).filter((event) => event.actor === 'person:anna').map((event) => event.kind);
  expect(done).toEqual(['task.completed', 'report.added']);
  expect(await daemon.call('GET', `/tasks/${tasks['review']}`)).toMatchObject({ state: 'completed' });
});

test('the rows of every list are walked through with j and k', async ({ daemon, signedIn: page }) => {
  const { tasks } = await assemble(daemon);
  await page.goto(`${daemon.url}/ui/agents`);
  await page.locator('.table tbody tr').first().waitFor();
  await page.keyboard.press('j');
  await expect(page).toHaveURL(/agents\/backend-2/);
  await page.keyboard.press('j');
  await expect(page).toHaveURL(/agents\/reviewer/);
  await page.goto(`${daemon.url}/ui/stream`);
  await page.locator('.stream-row').first().waitFor();
  await page.keyboard.press('k');
  await expect(page.locator('.stream-row.chosen')).toHaveCount(1);
  await page.keyboard.press(' ');
  await expect(page.locator('.feed pre')).toContainText('"');
  const seq = new URL(page.url()).searchParams.get('seq');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(new RegExp(`/ui/event/${seq}$`));
  await page.goto(`${daemon.url}/ui/stream`);
  await page.locator('.stream-row').first().waitFor();
  await page.keyboard.press('/');
  await expect(page.getByLabel('Kind contains')).toBeFocused();
  await page.goto(`${daemon.url}/ui/c/default`);
  await page.getByRole('article').first().waitFor();
  await expect(async () => {
    await page.keyboard.press('k');
    await expect(page.locator('.message.chosen')).toBeVisible({ timeout: 300 });
  }).toPass();
  await page.keyboard.press('r');
  await expect(page.getByText(/^Thread of/)).toBeVisible();
  await page.goto(`${daemon.url}/ui/tasks`);
  await page.locator('.task-card').first().waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/ui\/tasks\/.+/);
  // The graph is a tree: its tasks are reached by arrows, along what waits for what.
  await page.goto(`${daemon.url}/ui/runs/run_default?task=${tasks['refresh']}`);
  await page.getByRole('treeitem', { name: /Refresh path/ }).focus();
  await page.keyboard.press('ArrowLeft');
  await expect(page.getByRole('treeitem', { name: /^Plan/ })).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(new RegExp(`task=${tasks['plan']}`));
});

test('the keys of a channel approve, and the panel beside it is made wider by arrows for good', async ({ daemon, signedIn: page }) => {
  const { tasks } = await assemble(daemon);
  await page.goto(`${daemon.url}/ui/c/default`);
  await expect(page.locator('.card').getByRole('button', { name: /Approve/ })).toBeEnabled();
  await page.keyboard.press('a');
  await expect(page.locator('.card').getByRole('button', { name: /Approve/ })).toHaveCount(0);
  expect(await daemon.call('GET', `/tasks/${tasks['review']}`)).toMatchObject({ state: 'completed' });
  const edge = page.getByRole('separator', { name: 'Width of the panel' });
  await edge.focus();
  await page.keyboard.press('ArrowLeft');
  await expect(edge).toHaveAttribute('aria-valuenow', '428');
  await page.reload();
  await expect(edge).toHaveAttribute('aria-valuenow', '428');
  await page.getByRole('button', { name: 'Close' }).click();
  await expect(page.getByRole('complementary')).toHaveCount(0);
  await page.getByRole('button', { name: 'Show the run' }).click();
  await expect(page.getByRole('complementary')).toBeVisible();
});

test('the command menu does things, finds what was said, and takes event numbers', async ({ daemon, signedIn: page }) => {
  const { tasks } = await assemble(daemon);
  await page.goto(`${daemon.url}/ui/runs`);
  await page.getByRole('heading', { name: 'Runs' }).waitFor();
  const ask = async (text: string) => {
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Search or jump to' }).fill(text);
  };
  await ask('retry end-to-end');
  await expect(page.getByRole('option', { selected: true })).toContainText('Retry: End-to-end');
  await page.keyboard.press('Enter');
  await expect.poll(async () => (await daemon.call<{ state: string }>('GET', `/tasks/${tasks['endToEnd']}`)).state).toBe('pending');
  await ask('nothing reads it since');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/ui\/c\/default\?seq=\d+$/);
  await ask('12');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/ui\/event\/12$/);
});

test('the command menu shows what fits and nothing else, the best first', async ({ daemon, signedIn: page }) => {
  await assemble(daemon);
  const agent = await Mcp.connect(daemon, 'planner');
  const { id } = await agent.tool('workflow_create', { name: 'Rotate all tokens', source_type: 'prompt', source_content: 'Rotate them' });
  await agent.tool('workflow_set_plan', { id, plan: { summary: 'One by one', tasks: [{ name: 'First token', description: 'Rotate it' }] } });
  const complaints: string[] = [];
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  await page.goto(`${daemon.url}/ui/runs`);
  await page.getByRole('heading', { name: 'Runs' }).waitFor();
  await page.keyboard.press('Control+k');
  const field = page.getByRole('combobox', { name: 'Search or jump to' });
  const rows = page.getByRole('listbox', { name: 'Found' }).getByRole('option');
  await field.fill('e');
  await expect(rows).not.toHaveCount(0);
  await field.fill('zzqqxx');
  await expect(rows).toHaveText(['No results']);
  await field.fill('schema');
  await expect(rows.first()).toHaveText(/^Schema/);
  await field.fill('rotate all');
  await expect(rows.first()).toHaveText(`Rotate all tokensrun ${String(id)}`);
  const keys = await rows.allTextContents();
  expect(new Set(keys).size).toBe(keys.length);
  expect(complaints).toEqual([]);
});
