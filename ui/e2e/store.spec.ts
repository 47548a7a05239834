import { closeSync, openSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from './fixture';

/** Overwrites all but the first pages of a database that a daemon uses. */
function damage(database: string): void {
  const file = openSync(database, 'r+');
  const junk = Buffer.alloc(4096, 0xa5);
  for (let at = 4 * 4096; at < statSync(database).size; at += 4096) writeSync(file, junk, 0, junk.length, at);
  closeSync(file);
}

test('banner says that a damaged store is read-only, why, and the next step', async ({ daemon, signedIn: page }) => {
  await daemon.call('POST', '/agents/announce', { id: 'w1', tool: 'test' });
  for (let task = 0; task < 50; task++) await daemon.call('POST', '/tasks', { title: `task ${task}`, assigned_by: 'w1' });
  await expect(page.getByRole('alert')).toHaveCount(0);
  await daemon.crash();
  damage(join(daemon.folder, '.rookery/rookery.db'));
  await page.goto(`${daemon.url}/ui/tasks`);
  const banner = page.getByRole('alert');
  await expect(banner).toContainText('Read-only. The store cannot write: the file is damaged');
  await expect(banner).toContainText('rookery restore FILE --force');
});
