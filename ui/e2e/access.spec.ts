import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { expect, test } from './fixture';
import { assemble } from './team';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const VIEWS = ['attention', 'c/default', 'stream', 'agents/backend-2', 'tasks', 'tasks?view=list', 'runs', 'runs/run_default', 'runs/run_default?tab=timeline', 'files/src/auth/session.rs', 'handoffs', 'documents/default/decisions.md', 'artifacts', 'setup', 'event/5'];

for (const theme of ['light', 'dark'] as const) {
  test(`no view has a serious fault for those who see or hear it otherwise, ${theme}`, async ({ daemon, signedIn: page }) => {
    test.setTimeout(180_000);
    await assemble(daemon);
    await page.addInitScript((chosen) => localStorage.setItem('rookery.theme', chosen), theme);
    for (const view of VIEWS) {
      await page.goto(`${daemon.url}/ui/${view}`);
      await expect(page.locator('.transport .live')).toHaveText('Live');
      await page.locator('.main h1').waitFor();
      // Given to the page's own world by the debugger, which the page's policy does not concern.
      await page.evaluate(AXE);
      const found = await page.evaluate(async () => {
        const { axe } = globalThis as unknown as { axe: { run: (options: object) => Promise<{ violations: { id: string; impact: string; nodes: { html: string; failureSummary: string }[] }[] }> } };
        const { violations } = await axe.run({ resultTypes: ['violations'] });
        return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical').map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join(' | ')}`);
      });
      expect(found, view).toEqual([]);
    }
  });
}
