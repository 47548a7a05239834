// The log of `rookery demo`, in every view.

import { Daemon } from './daemon';
import { expect, test } from './fixture';
import { events } from './log';

test('the demo can be looked at in every view, now and as it was', async ({ page }) => {
  test.setTimeout(180_000);
  const daemon = await Daemon.demo();
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(error.message));
  try {
    // What the agents do is always the same; what runs beside it gives events other numbers.
    const log = await events(daemon);
    const seqOf = (kind: string) => log.find((event) => event.kind === kind)?.seq ?? 0;
    const to = (path: string) => page.goto(`${daemon.url}/ui/${path}`);
    await to('');
    await expect(page.getByRole('heading', { name: '# demo' })).toBeVisible();
    await expect(page.getByRole('article').first()).toBeVisible();
    // The team's work is kept in a run of its own, and is shown beside its channel all the same.
    const panel = page.getByRole('complementary', { name: 'Run' });
    await expect(panel).toContainText('A greeting for visitors');
    await expect(panel.getByRole('treeitem')).toHaveCount(4);
    await expect(page.locator('.line').filter({ hasText: /(ada|rita)@demo/ }).first()).toBeVisible();
    await panel.getByRole('link', { name: 'Open' }).first().click();
    await page.getByRole('treeitem', { name: /greeting/ }).click();
    const chosen = page.getByRole('complementary', { name: 'greeting' });
    await expect(chosen).toContainText('2 checkpoints');
    await expect(chosen).toContainText('Whoever has no name is a visitor');
    await expect(page.getByRole('region', { name: 'Time line' }).getByRole('link', { name: /greeting/ }).first()).toBeVisible();
    const views: [string, string][] = [
      ['attention', 'Nothing needs you'], ['tasks', 'greeting'], ['runs', 'A greeting for visitors'], ['files/src/greet.py?show=all', 'claimed src/greet.py'],
      ['handoffs', 'The import is there'], ['documents/demo/notes.md', 'all four tasks are completed'], ['artifacts', 'Nothing was uploaded yet'],
      ['agents', 'Nobody is here yet'], ['stream', 'turn.started'], ['start', '@demo'], [`event/${seqOf('task.failed')}`, 'task.failed'], ['setup', 'Connect an agent'],
    ];
    for (const [path, words] of views) {
      await to(path);
      await expect(page.locator('.main'), path).toContainText(words);
    }
    const handoff = seqOf('handoff.initiated');
    await to(`agents?at=${handoff}`);
    await expect(page.locator('.main')).toContainText('ada@demo');
    await expect(page.locator('.replaying')).toContainText(`event ${handoff}.`);
    await to(`documents/demo/notes.md?at=${seqOf('document.written')}`);
    await expect(page.locator('.main')).toContainText('The plan is the workflow');
    await expect(page.locator('.main')).not.toContainText('all four tasks are completed');
    expect(faults).toEqual([]);
  } finally {
    await daemon.stop();
  }
});
