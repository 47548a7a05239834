// Pictures of the main views, for people to look at.

import { mkdirSync } from 'node:fs';
import { expect, test } from './fixture';
import { assemble } from './team';

const FOLDER = process.env.SCREENSHOTS ?? '../target/ui-screenshots';

/** Which pictures are wanted, if not all. */
const ONLY = process.env.PICTURES ? new Set(process.env.PICTURES.split(',')) : undefined;

const VIEWS: [string, (ids: { task: string; handoff: string }) => string][] = [
  ['channel', () => '/ui/c/default'],
  ['attention', () => '/ui/attention'],
  ['stream', () => '/ui/stream'],
  ['agents', () => '/ui/agents/backend-2'],
  ['tasks', () => '/ui/tasks'],
  ['task', ({ task }) => `/ui/tasks/${task}`],
  ['run', () => '/ui/runs/run_default'],
  ['files', () => '/ui/files/src/auth/token.rs'],
  ['handoffs', ({ handoff }) => `/ui/handoffs/${handoff}`],
  ['documents', () => '/ui/documents/default/decisions.md?version=2'],
  ['setup', () => '/ui/setup'],
];

test('the main views in both themes and on a phone', async ({ daemon, signedIn: page }) => {
  test.setTimeout(180_000);
  mkdirSync(FOLDER, { recursive: true });
  const { tasks, handoff } = await assemble(daemon);
  for (const [name, address] of VIEWS) {
    const path = address({ task: tasks['refresh'] ?? '', handoff });
    for (const [kind, width, height, theme] of [['light', 1440, 900, 'light'], ['dark', 1440, 900, 'dark'], ['phone', 390, 844, 'light']] as const) {
      if (ONLY && !ONLY.has(`${name}-${kind}`)) continue;
      await page.setViewportSize({ width, height });
      await page.addInitScript((chosen) => localStorage.setItem('rookery.theme', chosen), theme);
      await page.goto(daemon.url + path);
      await expect(page.locator('.transport .live')).toHaveText('Live');
      await page.waitForLoadState('networkidle');
      await page.screenshot({ path: `${FOLDER}/${name}-${kind}.png` });
    }
  }
});
