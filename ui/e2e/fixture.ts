// What tests begin with: a daemon, and a page that a person is signed in to.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Page, test as base } from '@playwright/test';
import { Daemon } from './daemon';

/** Where built files are taken from instead of the daemon, so that a change of the UI needs no new daemon. */
const FILES = process.env.UI_DIST;
const TYPES: Record<string, string> = { html: 'text/html', js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' };

/** What the daemon says about its pages holds for these too. One that carries no UI has a policy for its plain page only. */
async function policyOf(url: string): Promise<string> {
  const told = (await fetch(url)).headers.get('content-security-policy') ?? '';
  return told.includes('script-src') ? told : '';
}

async function fromDisk(page: Page, folder: string): Promise<void> {
  let policy: string | undefined;
  await page.route(/\/ui(\/|$)/, async (route) => {
    const name = new URL(route.request().url()).pathname.replace(/^\/ui\/?/, '');
    const file = join(folder, name);
    const found = name !== '' && existsSync(file) ? file : join(folder, 'index.html');
    policy ??= await policyOf(route.request().url());
    await route.fulfill({ path: found, contentType: TYPES[found.split('.').at(-1) ?? ''] ?? 'text/plain', headers: { 'content-security-policy': policy } });
  });
}

/** Makes a page that a test opened itself take its files from where the others do. */
export async function prepared(page: Page): Promise<Page> {
  if (FILES) await fromDisk(page, FILES);
  return page;
}

export const test = base.extend<{ settings: string; daemon: Daemon; signedIn: Page }>({
  settings: ['', { option: true }],
  daemon: async ({ settings }, use) => {
    const daemon = await Daemon.start(settings);
    await use(daemon);
    await daemon.stop();
  },
  page: async ({ page }, use) => {
    await use(await prepared(page));
  },
  signedIn: async ({ daemon, page }, use) => {
    await page.goto(await daemon.launch());
    await page.getByText('Operator, sees everything').waitFor();
    await use(page);
  },
});

export { expect } from '@playwright/test';
