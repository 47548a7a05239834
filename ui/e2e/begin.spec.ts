import { expect, test } from './fixture';

test('the set-up page ticks itself off as the first agent comes and is spoken to', async ({ daemon, signedIn: page }) => {
  await page.goto(`${daemon.url}/ui/`);
  await expect(page.getByRole('heading', { name: 'Connect an agent' })).toBeVisible();
  const step = (number: number) => page.locator('.steps > li').nth(number - 1);
  await expect(step(1)).toContainText('claude mcp add rookery');
  await step(1).getByRole('button', { name: 'HTTP' }).click();
  await expect(step(1)).toContainText(`${daemon.url}/agents/announce`);
  await expect(step(2)).toContainText('Waiting for its first sign of life');
  await expect(page.getByRole('img', { name: 'done' })).toHaveCount(0);
  await page.goto(`${daemon.url}/ui/setup`);
  await daemon.call('POST', '/agents/announce', { id: 'script-1', tool: 'shell' });
  await expect(step(2)).toContainText('script-1 is here');
  await expect(page.getByRole('img', { name: 'done' })).toHaveCount(2);
  await daemon.call('POST', '/channels/default/messages', { text: '@script-1 introduce yourself' }, 'person');
  await step(3).getByRole('link', { name: '#general' }).click();
  await expect(page.getByRole('article')).toContainText('introduce yourself');
  await page.goBack();
  await expect(page.getByRole('img', { name: 'done' })).toHaveCount(2);
  await daemon.call('POST', '/channels/default/messages', { text: 'I write scripts' }, 'script-1');
  await expect(page.getByRole('img', { name: 'done' })).toHaveCount(3);
});

test('what is being written outlives a reload, and writing to an agent begins with its name', async ({ daemon, signedIn: page }) => {
  await daemon.call('POST', '/agents/announce', { id: 'backend-1', tool: 'codex' });
  await page.goto(`${daemon.url}/ui/agents/backend-1`);
  await page.getByRole('link', { name: 'Write to it' }).click();
  const field = page.getByRole('combobox', { name: 'Message #general' });
  await expect(field).toHaveValue('@backend-1 ');
  await field.pressSequentially('half a thought');
  await page.reload();
  await expect(field).toHaveValue('@backend-1 half a thought');
  await field.press('Enter');
  await expect(page.getByRole('article')).toContainText('To backend-1');
  await page.reload();
  await expect(page.getByRole('article')).toBeVisible();
  await page.goto(`${daemon.url}/ui/c/default`);
  await expect(field).toHaveValue('');
});
