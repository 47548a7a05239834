// Pictures of the views, for people to look at.

import { mkdirSync } from 'node:fs';
import { expect, test } from './fixture';
import { assemble } from './team';
import { views } from './views';

const FOLDER = process.env.SCREENSHOTS ?? '../target/ui-screenshots';

/** Which pictures are wanted, if not all. */
const ONLY = process.env.PICTURES ? new Set(process.env.PICTURES.split(',')) : undefined;

const KINDS = [
  { kind: 'light', width: 1440, height: 900, theme: 'light' },
  { kind: 'dark', width: 1440, height: 900, theme: 'dark' },
  { kind: 'phone', width: 390, height: 844, theme: 'light' },
  { kind: 'phone-dark', width: 390, height: 844, theme: 'dark' },
] as const;

test('the views in both themes, on a desk and on a phone', async ({ daemon, signedIn: page }) => {
  test.setTimeout(300_000);
  mkdirSync(FOLDER, { recursive: true });
  const team = await assemble(daemon);
  for (const { kind, width, height, theme } of KINDS) {
    await page.setViewportSize({ width, height });
    await page.addInitScript((chosen) => localStorage.setItem('rookery.theme', chosen), theme);
    for (const [name, path] of Object.entries(views(team))) {
      if (ONLY && !ONLY.has(`${name}-${kind}`)) continue;
      await page.goto(`${daemon.url}/ui/${path}`);
      await expect(page.locator('.transport .live')).toHaveText(name === 'past' ? /Past/ : 'Live');
      await page.waitForLoadState('networkidle');
      // What does not fit is cut or scrolls in its own place; the page itself never moves sideways.
      const width = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      expect(width, `${name}-${kind}`).toBe(0);
      await page.screenshot({ path: `${FOLDER}/${name}-${kind}.png` });
    }
  }
});
