import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from '@playwright/test';
import { expect, test } from './fixture';
import { assemble } from './team';
import { views } from './views';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Violation { id: string; impact: string; nodes: { html: string; failureSummary: string }[] }

/** What is serious or worse for those who see or hear the page otherwise. */
async function faults(page: Page): Promise<string[]> {
  // Given to the page's own world by the debugger, which the page's policy does not concern.
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: { run: (options: object) => Promise<{ violations: Violation[] }> } };
    const { violations } = await axe.run({ resultTypes: ['violations'] });
    const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
    return serious.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join(' | ')}`);
  });
}

for (const theme of ['light', 'dark'] as const) {
  test(`no view has a serious fault for those who see or hear it otherwise, ${theme}`, async ({ daemon, signedIn: page }) => {
    test.setTimeout(240_000);
    const team = await assemble(daemon);
    await page.addInitScript((chosen) => localStorage.setItem('rookery.theme', chosen), theme);
    for (const [name, path] of Object.entries(views(team))) {
      await page.goto(`${daemon.url}/ui/${path}`);
      await page.locator('.main h1').waitFor();
      await expect(page.locator('.transport .live')).toHaveText(name === 'past' ? /Past/ : 'Live');
      expect(await faults(page), name).toEqual([]);
    }
    for (const [key, name] of [['Control+k', 'Search or jump to'], ['?', 'Keys']] as const) {
      await page.keyboard.press(key);
      await page.getByRole('dialog', { name }).waitFor();
      expect(await faults(page), name).toEqual([]);
      await page.keyboard.press('Escape');
    }
    await page.setViewportSize({ width: 390, height: 844 });
    for (const path of ['attention', 'c/default', 'agents']) {
      await page.goto(`${daemon.url}/ui/${path}`);
      await page.locator('.main h1').waitFor();
      expect(await faults(page), `${path} on a phone`).toEqual([]);
    }
  });
}
