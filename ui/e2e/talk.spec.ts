import { expect, test } from './fixture';
import { Mcp } from './mcp';
import { assemble, envelope } from './team';

test('what an agent says and does is there without a reload', async ({ daemon, signedIn: page }) => {
  await page.goto(`${daemon.url}/ui/c/default`);
  await daemon.call('POST', '/agents/announce', { id: 'backend-1', tool: 'codex' });
  await expect(page.locator('.rail')).toContainText('backend-1');
  await daemon.call('POST', '/channels/default/messages', { text: 'The parser **works** in `src/lib.rs`' }, 'backend-1');
  await expect(page.getByRole('article')).toContainText('The parser works in src/lib.rs');
  const { id } = await daemon.call<{ id: string }>('POST', '/tasks', { title: 'Write the lexer', assigned_by: 'backend-1', assigned_to: 'backend-1' });
  await daemon.call('PATCH', `/tasks/${id}`, { status: 'in_progress', agent_id: 'backend-1' });
  await expect(page.locator('.rail')).toContainText('Write the lexer');
  await expect(page.locator('.inspector')).toContainText('Write the lexer');
});

test('a message with a mention tells whom it reaches, and reaches an MCP client', async ({ daemon, signedIn: page }) => {
  const agent = await Mcp.connect(daemon, 'backend-1');
  await agent.tool('channel_send', { message: 'here I am' });
  await page.goto(`${daemon.url}/ui/c/default`);
  await expect(page.getByRole('article')).toContainText('here I am');
  const field = page.getByRole('combobox', { name: 'Message #general' });
  await field.pressSequentially('@back');
  await expect(page.getByRole('option', { name: /backend-1/ })).toBeVisible();
  await field.press('Enter');
  await field.pressSequentially('release session.rs, this is urgent');
  await expect(page.getByText('Notifies backend-1, high priority')).toBeVisible();
  await field.press('Enter');
  await expect(page.getByRole('article').filter({ hasText: 'release session.rs' })).toContainText('you');
  const inbox = JSON.stringify(await agent.tool('inbox_check'));
  expect(inbox).toContain('release session.rs, this is urgent');
  expect(inbox).toContain('person:anna');
  expect(inbox).toContain('high');
});

test('an answer in a thread stays in the thread', async ({ daemon, signedIn: page }) => {
  await daemon.call('POST', '/agents/announce', { id: 'backend-1', tool: 'codex' });
  await daemon.call('POST', '/channels/default/messages', { text: 'Which database?' }, 'backend-1');
  await page.goto(`${daemon.url}/ui/c/default`);
  await page.getByRole('article').getByRole('link', { name: 'Reply' }).click();
  await page.getByRole('combobox', { name: 'Message #general' }).fill('PostgreSQL');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('article')).toHaveCount(2);
  await page.getByRole('link', { name: 'Back to the channel' }).click();
  await expect(page.getByRole('article')).toHaveCount(1);
  await expect(page.getByRole('link', { name: /1 reply/ })).toBeVisible();
});

test('a hostile message does nothing but being read', async ({ daemon, signedIn: page }) => {
  const complaints: string[] = [];
  const asked: string[] = [];
  page.on('dialog', (dialog) => void (complaints.push(`dialog ${dialog.message()}`), dialog.dismiss()));
  page.on('console', (message) => /Content Security Policy|Refused/.test(message.text()) && complaints.push(message.text()));
  page.on('request', (request) => new URL(request.url()).origin !== daemon.url && request.url().startsWith('http') && asked.push(request.url()));
  await daemon.call('POST', '/agents/announce', { id: 'mallory', tool: 'shell' });
  const hostile = [
    'A'.repeat(200_000),
    '<script>alert(1)</script><img src=x onerror=alert(2)>',
    '[click](javascript:alert(3)) javascript:alert(4) ![x](http://evil.example/x.png)',
    '<iframe src="http://evil.example"></iframe> <style>*{display:none}</style>',
    '\u202Egnp.exe @anna `code ** ** __ ```',
  ];
  for (const text of hostile) await daemon.call('POST', '/channels/default/messages', { text }, 'mallory');
  // A line of a megabyte, as a message and as an artifact.
  const line = `${'<b onmouseover=alert(5)>'.repeat(42_000)}`;
  await envelope(daemon, 'mallory', 'x.rant', 'task_rant', { text: line }, { to: 'agent:mallory' });
  const long = await daemon.upload(line);
  await daemon.call('PUT', '/contexts/default/documents/evil.md', { text: hostile.slice(1, 4).join('\n\n'), version: 0 }, 'mallory');
  await page.goto(`${daemon.url}/ui/c/default`);
  await expect(page.getByText('<script>alert(1)</script>')).toBeVisible();
  await expect(page.getByRole('button', { name: /197,000 more characters/ })).toBeAttached();
  expect(await page.locator('.main a[href^="javascript"], .main iframe, .main img, .main script').count()).toBe(0);
  await page.goto(`${daemon.url}/ui/documents/default/evil.md`);
  await expect(page.locator('.markdown')).toBeVisible();
  expect(await page.locator('.markdown a[href^="javascript"], .markdown iframe, .markdown img, .markdown script, .markdown style').count()).toBe(0);
  await page.goto(`${daemon.url}/ui/stream`);
  const rant = page.locator('.stream-row').filter({ hasText: 'x.rant' });
  await expect(rant).toBeVisible();
  const seq = await rant.locator('.seq').textContent();
  await page.goto(`${daemon.url}/ui/event/${seq}`);
  await expect(page.locator('pre')).toContainText('onmouseover');
  await page.goto(`${daemon.url}/ui/artifacts/${long}`);
  await expect(page.locator('pre')).toContainText('onmouseover');
  expect(await page.locator('.main b[onmouseover]').count()).toBe(0);
  expect([...complaints, ...asked]).toEqual([]);
});

test('what an artifact says of itself is shown, and a page among them can do nothing', async ({ daemon, signedIn: page }) => {
  const { artifacts, tasks } = await assemble(daemon);
  const asked: string[] = [];
  page.on('request', (request) => request.method() === 'POST' && asked.push(request.url()));
  await page.goto(`${daemon.url}/ui/artifacts/${artifacts.patch}`);
  await expect(page.locator('.diff .added')).toContainText('drop column legacy_token');
  await page.locator('.main').getByRole('link', { name: 'Schema' }).first().click();
  await expect(page).toHaveURL(new RegExp(`/ui/tasks/${tasks['schema']}`));
  await page.goto(`${daemon.url}/ui/artifacts/${artifacts.page}`);
  const frame = page.locator('iframe');
  await expect(frame).toHaveAttribute('sandbox', '');
  await expect(frame.contentFrame().getByRole('heading', { name: 'Coverage' })).toBeVisible();
  await expect(page).toHaveTitle(/Artifacts/);
  expect(asked).toEqual([]);
});

test('a review is decided under the message that asks for it, and under no other one', async ({ daemon, signedIn: page }) => {
  const { tasks } = await assemble(daemon);
  const { id } = await daemon.call<{ id: string }>('POST', '/tasks', { title: 'Rename the column', assigned_by: 'planner', assigned_to: 'reviewer' }, 'planner');
  await daemon.call('PATCH', `/tasks/${id}`, { status: 'in_progress', agent_id: 'reviewer' });
  await daemon.call('PATCH', `/tasks/${id}`, { status: 'review', agent_id: 'reviewer' });
  for (const text of ['@anna Rename the column is ready', '@planner what comes next?', '@backend-1 is the cache on?']) {
    await daemon.call('POST', '/channels/default/messages', { text }, 'reviewer');
  }
  await page.goto(`${daemon.url}/ui/c/default`);
  await expect(page.getByText('is the cache on?')).toBeVisible();
  const card = (text: string) => page.getByRole('article').filter({ hasText: text }).locator('.card');
  await expect(card('Rename the column is ready').getByRole('link')).toHaveAttribute('href', `/ui/tasks/${id}`);
  await expect(card('Approve before I merge?').getByRole('link')).toHaveAttribute('href', `/ui/tasks/${tasks['review']}`);
  await expect(page.locator('.message .card').filter({ hasText: 'Review' })).toHaveCount(2);
});

test('a person is reached by name, and finds the mention in Attention', async ({ daemon, signedIn: page }) => {
  const agent = await Mcp.connect(daemon, 'ada');
  expect(await agent.tool('channel_send', { message: '@anna which database? @ghost knows nothing' })).toMatchObject({ people: ['anna'], unknown: ['ghost'] });
  expect(await agent.tool('channel_send', { message: '@person the tests are red' })).toMatchObject({ people: ['person'] });
  await page.goto(`${daemon.url}/ui/attention`);
  await expect(page.locator('.matter').filter({ hasText: 'ada mentions you' })).toHaveCount(2);
});

test('a reply notifies those who wrote in the thread, and says so before it is sent', async ({ daemon, signedIn: page }) => {
  const [ada, ben] = [await Mcp.connect(daemon, 'ada'), await Mcp.connect(daemon, 'ben')];
  const { id } = await ada.tool('channel_send', { message: 'Which database?' });
  await ben.tool('channel_send', { message: 'PostgreSQL', reply_to: id });
  expect(JSON.stringify(await ada.tool('inbox_check'))).toContain('PostgreSQL');
  await page.goto(`${daemon.url}/ui/c/default?thread=${String(id)}`);
  const field = page.getByRole('combobox', { name: 'Message #general' });
  await field.fill('SQLite is enough');
  await expect(page.getByText('Notifies ada, ben, normal priority')).toBeVisible();
  await field.press('Enter');
  await expect(page.getByRole('article').filter({ hasText: 'SQLite is enough' })).toContainText('To ada, ben');
  for (const agent of [ada, ben]) expect(JSON.stringify(await agent.tool('inbox_check'))).toContain('SQLite is enough');
  await ben.tool('channel_send', { message: 'As you like', reply_to: id });
  await page.goto(`${daemon.url}/ui/attention`);
  await expect(page.locator('.matter').filter({ hasText: 'ben answers in your thread' })).toBeVisible();
});
