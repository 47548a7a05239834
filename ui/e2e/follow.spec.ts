import { expect, test } from './fixture';
import { eventName } from '../src/store/eventNames';
import { events } from './log';
import { assemble } from './team';

test('it reconnects after a crash of the daemon, without a gap and still signed in', async ({ daemon, signedIn: page }) => {
  await page.goto(`${daemon.url}/ui/stream`);
  const report = (number: number) => daemon.call('POST', '/events', { agent_id: 'a', action: 'x.count', metadata: { number } });
  await daemon.call('POST', '/agents/announce', { id: 'a', tool: 'shell' });
  for (let number = 0; number < 5; number += 1) await report(number);
  await expect(page.locator('.stream-row')).toHaveCount(7);
  await daemon.crash();
  for (let number = 5; number < 10; number += 1) await report(number);
  await expect(page.locator('.transport .live')).toHaveText('Live');
  await expect(page.locator('.stream-row')).toHaveCount(12);
  const numbers = await page.locator('.stream-row .seq').allTextContents();
  expect(numbers.map(Number)).toEqual(Array.from({ length: 12 }, (_, index) => (numbers[0] ? Number(numbers[0]) : 0) + index));
  await expect(page.getByText('Operator, sees everything')).toBeVisible();
});

test('the past can be looked at, changes nothing, and is left again', async ({ daemon, signedIn: page }) => {
  await assemble(daemon);
  await page.goto(`${daemon.url}/ui/tasks`);
  await expect(page.locator('.task-card').filter({ hasText: 'End-to-end' })).toBeVisible();
  const scrub = page.getByRole('slider', { name: 'Position in the log' });
  await scrub.focus();
  await page.keyboard.press('Home');
  await expect(page.locator('.replaying')).toContainText('event 1');
  await expect(page.locator('.task-card')).toHaveCount(0);
  await expect(page.getByRole('textbox', { name: 'New task' })).toHaveCount(0);
  await page.keyboard.press('PageDown');
  await page.locator('.main').click({ position: { x: 5, y: 5 } });
  await page.keyboard.press('L');
  await expect(page.locator('.replaying')).toHaveCount(0);
  await expect(page.locator('.task-card').filter({ hasText: 'End-to-end' })).toBeVisible();
});

test('a place in the past is an address, is walked and played on from, and shows everything as of then', async ({ daemon, signedIn: page }) => {
  await assemble(daemon);
  const said = page.getByRole('article').filter({ hasText: 'Approve before I merge?' });
  await page.goto(`${daemon.url}/ui/c/default`);
  await expect(said).toBeVisible();
  await page.keyboard.press('[');
  await expect(page).toHaveURL(/[?&]at=\d+/);
  await expect(said).toHaveCount(0);
  const at = Number(new URL(page.url()).searchParams.get('at'));
  await page.reload();
  await expect(page.locator('.replaying')).toContainText(`event ${at}.`);
  await expect(said).toHaveCount(0);
  await expect(page.getByText('This is the past.')).toBeVisible();
  await page.keyboard.press('g');
  await page.keyboard.press('a');
  await expect(page).toHaveURL(new RegExp(`/ui/attention\\?at=${at}$`));
  await expect(page.locator('.matter').filter({ hasText: 'mentions you' })).toHaveCount(0);
  await expect(page.getByRole('button', { name: /Approve/ })).toBeDisabled();
  // Played on, it comes to now by itself.
  await page.getByRole('button', { name: 'Play the log' }).click();
  await expect(page.locator('.replaying')).toHaveCount(0);
  await expect(page.locator('.matter').filter({ hasText: 'mentions you' })).toBeVisible();
  await expect(page).toHaveURL(/\/ui\/attention$/);
});

test('the past has the messages of then, in the channel and in its threads, also where they are far back', async ({ daemon, signedIn: page }) => {
  await daemon.call('POST', '/agents/announce', { id: 'ada', tool: 'shell' });
  const say = (text: string, more: object = {}) => daemon.call<{ id: string; seq: number }>('POST', '/channels/default/messages', { text, ...more }, 'ada');
  const root = await say('which database?');
  await say('the first answer', { reply_to: root.id });
  const then = await say('a note of long ago');
  await say('the second answer', { reply_to: root.id });
  for (let number = 0; number < 220; number += 1) await say(`count ${number}`);
  const articles = page.getByRole('article');
  await page.goto(`${daemon.url}/ui/c/default?at=${then.seq}`);
  await expect(articles).toHaveText([/which database\?.*1 reply/s, /a note of long ago/]);
  await page.goto(`${daemon.url}/ui/c/default?thread=${root.id}&at=${then.seq}`);
  await expect(articles).toHaveText([/which database\?/, /the first answer/]);
  await page.goto(`${daemon.url}/ui/c/default?at=${then.seq + 110}`);
  await expect(articles.last()).toContainText('count 108');
  // Now, a thread that began before what the page has read is found too.
  await page.goto(`${daemon.url}/ui/c/default?thread=${root.id}`);
  await expect(articles).toHaveText([/which database\?/, /the first answer/, /the second answer/]);
});

test('the keyboard reaches everything that the mouse does', async ({ daemon, signedIn: page }) => {
  await assemble(daemon);
  await page.goto(`${daemon.url}/ui/c/default`);
  await page.locator('.main h1').click();
  await page.keyboard.press('g');
  await page.keyboard.press('t');
  await expect(page).toHaveURL(/\/ui\/tasks$/);
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Search or jump to' }).fill('backend-2');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/ui\/agents\/backend-2$/);
  await page.keyboard.press('?');
  await expect(page.getByRole('dialog', { name: 'Keys' })).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toHaveCount(0);
  await page.goBack();
  await expect(page).toHaveURL(/\/ui\/tasks$/);
});

test('every event has an address, and filters are part of it', async ({ daemon, page }) => {
  await assemble(daemon);
  await page.goto(`${daemon.url}/ui/event/3`);
  await expect(page.getByRole('heading', { name: 'Event 3', exact: true })).toBeVisible();
  await page.goto(`${daemon.url}/ui/stream?kind=task.completed`);
  await expect(page.locator('.stream-row')).toHaveCount(1);
  await page.reload();
  await expect(page.locator('.stream-row')).toHaveCount(1);
  await page.goto(`${daemon.url}/ui/attention?kind=failed`);
  await expect(page.locator('.matter')).toHaveCount(1);
  await expect(page.locator('.matter')).toContainText('End-to-end failed');
  await page.goto(`${daemon.url}/ui/agents?only=blocked`);
  await expect(page.locator('.table tbody tr')).toHaveCount(1);
  // Paused, what is in sight stays while the log goes on.
  await page.goto(`${daemon.url}/ui/stream`);
  await page.getByRole('button', { name: 'Pause' }).click();
  const last = await page.locator('.stream-row .seq').last().textContent();
  await daemon.call('POST', '/agents/announce', { id: 'late', tool: 'shell' });
  await expect(page.getByRole('button', { name: /^Paused, [1-9]/ })).toBeVisible();
  await expect(page.locator('.stream-row .seq').last()).toHaveText(last ?? '');
  await page.getByRole('button', { name: /^Paused/ }).click();
  await expect(page.locator('.stream-row').last()).toContainText('late');
});

test('events have the names that REST has for them', async ({ daemon, signedIn: page }) => {
  await assemble(daemon);
  const log = new Map((await events(daemon)).map((event) => [event.seq, eventName(event)]));
  const told = await daemon.call<{ seq: number; action: string }[]>('GET', '/events?after=0&limit=1000');
  expect(told.length).toBeGreaterThan(50);
  expect(told.map(({ seq }) => `${seq} ${log.get(seq)}`)).toEqual(told.map(({ seq, action }) => `${seq} ${action.replace(/^x\./, '')}`));
  await page.goto(`${daemon.url}/ui/stream?kind=task.assigned`);
  await expect(page.locator('.stream-row .kind').first()).toHaveText('task.assigned');
});

test('a channel opens at the first new message, else at the newest, and what one says is in sight', async ({ daemon, signedIn: page }) => {
  await daemon.call('POST', '/agents/announce', { id: 'ada', tool: 'shell' });
  const say = (text: string) => daemon.call('POST', '/channels/default/messages', { text }, 'ada');
  for (let number = 0; number < 150; number += 1) await say(number % 7 === 0 ? `count ${number}\n${'and more\n'.repeat(20)}` : `count ${number}`);
  const article = (text: string) => page.getByRole('article').filter({ has: page.getByText(text, { exact: true }) });
  // Signing in led to the channel, which follows its end; all has been read then.
  await expect(article('count 149')).toBeInViewport();
  await page.goto(`${daemon.url}/ui/c/default`);
  await expect(article('count 149')).toBeInViewport();
  await expect(page.getByRole('button', { name: /ump to live/ })).toHaveCount(0);
  await page.goto(`${daemon.url}/ui/tasks`);
  await page.getByRole('heading', { name: 'Tasks' }).waitFor();
  for (let number = 200; number < 260; number += 1) await say(`count ${number}`);
  await page.goto(`${daemon.url}/ui/c/default`);
  await expect(page.getByText(/^New since/)).toBeInViewport();
  await expect(article('count 200')).toBeInViewport();
  await page.getByRole('combobox', { name: 'Message #general' }).fill('what I say');
  await page.keyboard.press('Enter');
  await expect(article('what I say')).toBeInViewport();
});
