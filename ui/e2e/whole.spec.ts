// A log of a hundred thousand events, from the newest to the first and back.

import { expect, test } from './fixture';
import { flood, head, UNHINDERED } from './flood';

const MANY = 100_000;

test.use({ settings: UNHINDERED });

test('a hundred thousand events are scrolled through, and no more than what is in sight exists', async ({ daemon, page }) => {
  test.setTimeout(400_000);
  await daemon.call('POST', '/agents/announce', { id: 'flood', tool: 'shell' });
  await flood(daemon, 0, MANY);
  const last = await head(daemon);
  expect(last).toBeGreaterThan(MANY);
  await page.goto(`${daemon.url}/ui/stream`);
  const numbers = page.locator('.stream-row .seq');
  await expect(numbers.last()).toHaveText(String(last));
  const list = page.locator('.feed > div').first();
  // As by the wheel: what scrolls without the person does not stop the list from following its end.
  const to = (part: number) => list.evaluate((box, place) => {
    box.dispatchEvent(new WheelEvent('wheel', { bubbles: true }));
    box.scrollTo(0, (box.scrollHeight - box.clientHeight) * place);
  }, part);
  for (const part of [0.75, 0.5, 0.25, 0.01]) {
    // What is in sight is about there, and has been read.
    await expect.poll(async () => {
      await to(part);
      return Math.abs(Number(await numbers.nth(5).textContent()) / last - part);
    }).toBeLessThan(0.02);
    await expect(page.locator('.stream-row').filter({ hasText: '…' })).toHaveCount(0);
    await expect(page.locator('.stream-row .kind').nth(5)).toHaveText('envelope.received');
    expect(await page.locator('.stream-row').count()).toBeLessThan(200);
  }
  await to(0);
  await expect(numbers.first()).toHaveText('1');
  await expect(page.locator('.stream-row .kind').first()).toHaveText('agent.joined');
  // A link leads to the place, and a filter looks further back than what the page has.
  await page.goto(`${daemon.url}/ui/stream?seq=50000`);
  await expect(page.locator('.stream-row.chosen')).toContainText('envelope.received');
  await page.goto(`${daemon.url}/ui/stream?kind=agent.registered`);
  await expect(page.locator('.empty')).toContainText('Nothing fits the filter since event');
  const further = page.getByRole('button', { name: 'Look further back' });
  await expect(async () => {
    if (await further.isEnabled({ timeout: 500 }).catch(() => false)) await further.click();
    await expect(page.locator('.stream-row')).toHaveCount(1, { timeout: 500 });
  }).toPass({ timeout: 120_000 });
  // The whole log is on the line at the bottom: its beginning is event 1.
  await page.goto(`${daemon.url}/ui/agents`);
  const scrub = page.getByRole('slider', { name: 'Position in the log' });
  await expect(scrub).toHaveAttribute('aria-valuemax', String(last));
  await expect(async () => {
    await scrub.click({ position: { x: 2, y: 10 } });
    await expect(page.locator('.replaying')).toContainText(/event [0-9]{1,4}\./, { timeout: 1000 });
  }).toPass();
  await page.keyboard.press('L');
  await expect(page.locator('.replaying')).toHaveCount(0);
});
