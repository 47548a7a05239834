// The page's fold and the daemon's own are one: held against each other at every step of a team's work.

import { expect, test } from './fixture';
import { events } from './log';
import { assemble } from './team';
import type { Daemon } from './daemon';
import { fold } from '../src/store/fold';
import { fromSnapshot, NOTHING, type World } from '../src/store/world';

test('fold(events <= n) is the snapshot at n', async ({ daemon }) => {
  const seen: { seq: number; world: World }[] = [];
  // Every call of the scene is followed by a look at the state.
  const watched = new Proxy(daemon, {
    get(target, name, receiver) {
      if (name !== 'call') return Reflect.get(target, name, receiver);
      return async (...args: Parameters<Daemon['call']>) => {
        const answer = await target.call(...args);
        seen.push(await snapshot(target));
        return answer;
      };
    },
  });
  const { tasks } = await assemble(watched);
  await watched.call('POST', `/tasks/${tasks['endToEnd']}/retry`, {}, 'person');
  await watched.call('POST', `/tasks/${tasks['docs']}/assign`, { agent_id: 'docs-writer' }, 'person');
  await watched.call('POST', `/tasks/${tasks['schema']}/cancel`, { reason: 'not needed' }, 'person');
  await watched.call('PATCH', `/tasks/${tasks['login']}`, { status: 'queued', agent_id: 'frontend-1' });
  await watched.call('POST', '/resources/resolve', { path: 'src/auth/token.rs', winner: 'backend-2' }, 'person');
  await watched.call('POST', '/resources/release', { path: 'web/login.tsx', agent_id: 'frontend-1' });
  await watched.call('POST', '/resources/lock', { path: 'Cargo.lock' }, 'person');
  await watched.call('POST', '/agents/docs-writer/pause', { reason: 'the budget' }, 'person');
  await watched.call('POST', '/agents/tester-1/pause', {}, 'person');
  await watched.call('POST', '/agents/tester-1/resume', undefined, 'person');
  await watched.call('DELETE', '/agents/backend-1', undefined, 'person');
  await watched.call('POST', '/agents/announce', { id: 'backend-1', tool: 'claude-code' });

  const log = await events(daemon);
  expect(seen.length).toBeGreaterThan(40);
  for (const { seq, world } of seen) {
    const folded = fold(NOTHING, log.filter((event) => event.seq <= seq));
    expect(comparable(folded), `at event ${seq}`).toEqual(comparable(world));
  }
  // Going on from a snapshot comes to the same as going on from the beginning.
  const [middle, end] = [seen[Math.floor(seen.length / 2)], seen.at(-1)];
  if (!middle || !end) throw new Error('nothing was seen');
  const onwards = fold(middle.world, log.filter((event) => event.seq > middle.seq && event.seq <= end.seq));
  expect(comparable(onwards)).toEqual(comparable(end.world));
});

async function snapshot(daemon: Daemon): Promise<{ seq: number; world: World }> {
  const response = await fetch(`${daemon.url}/state`);
  const seq = Number(response.headers.get('x-rookery-seq'));
  return { seq, world: fromSnapshot((await response.json()) as Parameters<typeof fromSnapshot>[0], seq) };
}

/** Without what only the page knows (since when something is so, as far as it saw it) and what `/state` does not tell. */
function comparable(world: World) {
  const rows = <T>(table: ReadonlyMap<string, T>, leave: (row: T) => object) => Object.fromEntries([...table].sort().map(([key, row]) => [key, leave(row)]));
  return {
    seq: world.seq,
    lead: world.lead,
    agents: rows(world.agents, ({ since, lastEvent, ...agent }) => ({ ...agent, capabilities: [...agent.capabilities] })),
    tasks: rows(world.tasks, ({ since, waitingFor, workedBy, ...task }) => ({ ...task, assigned: task.holder ?? task.reservedFor ?? (['completed', 'failed', 'skipped', 'cancelled'].includes(task.state) ? workedBy : undefined) })),
    files: rows(world.files, (file) => file),
    handoffs: rows(world.handoffs, (handoff) => handoff),
  };
}
