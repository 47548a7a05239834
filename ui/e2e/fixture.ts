// What tests begin with: a daemon, and a page that a person is signed in to.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Page, test as base } from '@playwright/test';
import { Daemon } from './daemon';

/** Where built files are taken from instead of the daemon, so that a change of the UI needs no new daemon. */
const FILES = process.env.UI_DIST;
const TYPES: Record<string, string> = { html: 'text/html', js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' };

async function fromDisk(page: Page, folder: string): Promise<void> {
  let policy: string | undefined;
  await page.route(/\/ui(\/|$)/, async (route) => {
    const name = new URL(route.request().url()).pathname.replace(/^\/ui\/?/, '');
    const file = join(folder, name);
    const found = name !== '' && existsSync(file) ? file : join(folder, 'index.html');
    // What the daemon says about its pages holds for these too, its policy above all.
    policy ??= (await (await fetch(route.request().url())).headers.get('content-security-policy')) ?? '';
    await route.fulfill({ path: found, contentType: TYPES[found.split('.').at(-1) ?? ''] ?? 'text/plain', headers: { 'content-security-policy': policy } });
  });
}

export const test = base.extend<{ daemon: Daemon; signedIn: Page }>({
  daemon: async ({}, use) => {
    const daemon = await Daemon.start();
    await use(daemon);
    await daemon.stop();
  },
  page: async ({ page }, use) => {
    if (FILES) await fromDisk(page, FILES);
    await use(page);
  },
  signedIn: async ({ daemon, page }, use) => {
    await page.goto(await daemon.launch());
    await page.getByText('Operator, sees everything').waitFor();
    await use(page);
  },
});

export { expect } from '@playwright/test';
