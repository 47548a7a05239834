import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readFileSync } from 'node:fs';
import { expect, prepared, test } from './fixture';

/** A server on another port of this host, as a container or a forwarded port may be; it keeps the cookies that it is sent. */
async function otherPort(): Promise<{ url: string; cookies: () => string; close: () => Promise<void> }> {
  let cookies = '';
  const server = createServer((request, response) => {
    cookies += request.headers.cookie ?? '';
    response.setHeader('content-type', 'text/html');
    response.end('<!doctype html><title>another port</title>');
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    cookies: () => cookies,
    close: () => new Promise((done) => server.close(() => done())),
  };
}

test('the cookie that another port is sent cannot act', async ({ daemon, signedIn: page }) => {
  const other = await otherPort();
  await page.goto(other.url);
  expect(other.cookies()).toContain('rookery-');
  const headers = { cookie: other.cookies(), 'content-type': 'application/json' };
  const made = await fetch(`${daemon.url}/admin/tokens`, { method: 'POST', headers, body: JSON.stringify({ agent: 'eve', role: 'person' }) });
  expect(made.status).toBe(403);
  expect((await fetch(`${daemon.url}/sessions`, { headers })).status).toBe(403);

  // A page there reaches nothing either, and the secret is not in its storage.
  expect(await page.evaluate(() => localStorage.length)).toBe(0);
  await daemon.call('POST', '/agents/announce', { id: 'w1', tool: 'test' });
  await page.evaluate((url) => fetch(`${url}/clutch/v0/agents/w1/inbox`, { mode: 'no-cors', credentials: 'include' }).catch(() => undefined), daemon.url);
  const measures = await (await fetch(`${daemon.url}/metrics`)).text();
  const answers = measures.split('\n').filter((line) => line.startsWith('rookery_http_requests_total') && line.includes('{id}/inbox'));
  expect(answers).toHaveLength(1);
  expect(answers[0]).toContain('status="403"');
  await other.close();

  await page.goto(`${daemon.url}/ui/`);
  await expect(page.getByText('Operator, sees everything')).toBeVisible();
});

test('a person sees the browsers that are signed in, and signs them out', async ({ daemon, signedIn: page, browser }) => {
  const elsewhere = await browser.newContext();
  const second = await prepared(await elsewhere.newPage());
  await second.goto(await daemon.launch('ben'));
  await expect(second.getByText('Operator, sees everything')).toBeVisible();

  await page.getByText('Operator, sees everything').click();
  await expect(page.getByRole('heading', { name: 'Browsers' })).toBeVisible();
  await expect(page.getByRole('row').filter({ hasText: 'this browser' })).toContainText('anna');
  await page.getByRole('row').filter({ hasText: 'ben' }).getByRole('button', { name: 'Sign out' }).click();
  await expect(page.getByRole('row').filter({ hasText: 'ben' })).toHaveCount(0);
  // Its stream ends with its session, and the page says so by itself.
  await daemon.call('POST', '/agents/announce', { id: 'w1', tool: 'test' });
  await expect(second.getByText('Signed out')).toBeVisible();
  await second.goto(`${daemon.url}/ui/sessions`);
  await expect(second.getByText('rookery open', { exact: true }).first()).toBeVisible();

  await page.getByRole('row').filter({ hasText: 'this browser' }).getByRole('button', { name: 'Sign out' }).click();
  await expect(page.locator('.self')).toContainText('Signed out');
  await expect(page.getByRole('note')).toContainText('You are signed out.');
  expect(await daemon.call<unknown[]>('GET', '/sessions', undefined, 'person')).toEqual([]);
  await page.goto(await daemon.launch());
  await expect(page.getByText('Operator, sees everything')).toBeVisible();
  await elsewhere.close();
});

test.describe('where tokens are required', () => {
  test.use({ settings: 'require_token = true' });

  test('a session reads, follows and downloads; without one nothing is shown', async ({ daemon, page }) => {
    await page.goto(`${daemon.url}/ui/`);
    await expect(page.getByText('The daemon does not let this page in')).toBeVisible();
    await page.goto(await daemon.launch());
    await expect(page.getByText('Operator, sees everything')).toBeVisible();
    await expect(page.locator('.transport .live')).toHaveText('Live');
    await daemon.call('POST', '/channels/default/messages', { text: 'hello there' }, 'person');
    await page.goto(`${daemon.url}/ui/c/default`);
    await expect(page.getByText('hello there')).toBeVisible();
    await daemon.call('POST', '/channels/default/messages', { text: 'and once more' }, 'person');
    await expect(page.getByText('and once more')).toBeVisible();

    const sha256 = await daemon.upload('the content', 'person');
    await page.goto(`${daemon.url}/ui/artifacts/${sha256}`);
    await expect(page.getByText('the content')).toBeVisible();
    const saved = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download' }).click();
    expect(readFileSync(await (await saved).path(), 'utf8')).toBe('the content');
  });
});
