import { describe, expect, it } from 'vitest';
import type { LogEvent, Placed } from '../src/store/event';
import { Feed, type Link, type Source, type StreamListener } from '../src/store/feed';

const row = (seq: number): Placed => ({
  seq,
  message: {
    id: `msg_${seq}`, ts: '2026-01-01T00:00:00Z', type: 'x.note', run_id: 'run_default', thread_id: 'thr_default', task_id: null,
    from: { agent_id: 'agent:a' }, to: [], payload: {}, meta: { kind: 'report.added' },
  },
});
const rows = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => row(from + index));

/** A daemon whose log has so many events, and whose streams the test feeds by hand. */
class Fake implements Source<string> {
  head = 10;
  log = 'log_1';
  snapshots = 0;
  pages: [number, number][] = [];
  opened: string[] = [];
  listener: StreamListener | undefined;
  closed = 0;
  broken = false;

  async snapshot() {
    this.snapshots += 1;
    if (this.broken) throw new Error('no answer');
    return { log: this.log, seq: this.head, state: `state at ${this.head}` };
  }

  async page(after: number, limit: number) {
    this.pages.push([after, limit]);
    return rows(after + 1, Math.min(this.head, after + limit));
  }

  open(position: string, listener: StreamListener) {
    this.opened.push(position);
    this.listener = listener;
    listener.opened();
    return { close: () => void (this.closed += 1) };
  }
}

function followed() {
  const source = new Fake();
  const events: LogEvent[] = [];
  const links: Link['is'][] = [];
  const began: string[] = [];
  const later: (() => void)[] = [];
  const feed = new Feed<string>(
    source,
    {
      began: (snapshot) => void began.push(snapshot.state),
      arrived: (fresh) => void events.push(...fresh),
      linked: (link) => void links.push(link.is),
    },
    { now: () => 1_800_000_000_000, after: (_, run) => void later.push(run) },
  );
  const settle = async () => {
    for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
  };
  const numbers = () => events.map((event) => event.seq);
  const wait = async () => {
    for (const run of later.splice(0)) run();
    await settle();
  };
  return { source, feed, numbers, links, began, settle, wait };
}

describe('the feed', () => {
  it('begins again at once when it is restarted, and drops what it had planned', async () => {
    const { source, feed, began, settle, wait } = followed();
    source.broken = true;
    await feed.start();
    source.broken = false;
    feed.restart();
    await settle();
    await wait();
    expect([began.length, source.opened.length, source.snapshots]).toEqual([1, 1, 2]);
  });

  it('begins with a snapshot and follows from its position', async () => {
    const { source, feed, numbers, began, links } = followed();
    await feed.start();
    source.listener?.frame(rows(11, 13));
    expect(began).toEqual(['state at 10']);
    expect(source.opened).toEqual(['log_1:10']);
    expect(numbers()).toEqual([11, 12, 13]);
    expect(links).toEqual(['connecting', 'live']);
  });

  it('takes nothing twice', async () => {
    const { source, feed, numbers } = followed();
    await feed.start();
    source.listener?.frame(rows(9, 12));
    source.listener?.frame(rows(11, 14));
    expect(numbers()).toEqual([11, 12, 13, 14]);
  });

  it('notices a gap, says that it is behind, and fills it in order, also what comes meanwhile', async () => {
    const { source, feed, numbers, links, settle } = followed();
    await feed.start();
    source.head = 2020;
    source.listener?.frame(rows(1515, 1516));
    source.listener?.frame(rows(1517, 1520));
    await settle();
    expect(numbers()).toEqual(Array.from({ length: 1510 }, (_, index) => index + 11));
    expect(source.pages).toEqual([[10, 1000], [1010, 504]]);
    expect(links).toContain('behind');
    expect(links.at(-1)).toBe('live');
  });

  it('takes a new snapshot if a hole is too large to read through', async () => {
    const { source, feed, began, settle } = followed();
    await feed.start();
    source.head = 100_000;
    source.listener?.frame(rows(99_999, 100_000));
    await settle();
    expect(began).toEqual(['state at 10', 'state at 100000']);
    expect(source.pages).toEqual([]);
    expect(source.closed).toBe(1);
  });

  it('takes a new snapshot if the log does not have what is missing', async () => {
    const { source, feed, began, settle } = followed();
    await feed.start();
    source.page = async () => [];
    source.listener?.frame(rows(15, 16));
    await settle();
    expect(began).toHaveLength(2);
  });

  it('resumes after the last event when the connection is gone, without a gap or a repeat', async () => {
    const { source, feed, numbers, links, wait } = followed();
    await feed.start();
    source.listener?.frame(rows(11, 12));
    source.listener?.closed(false);
    expect(links.at(-1)).toBe('away');
    await wait();
    expect(source.opened).toEqual(['log_1:10', 'log_1:12']);
    source.listener?.frame(rows(12, 14));
    expect(numbers()).toEqual([11, 12, 13, 14]);
  });

  it('begins anew when the daemon has another log', async () => {
    const { source, feed, began, wait } = followed();
    await feed.start();
    source.log = 'log_2';
    source.head = 3;
    source.listener?.closed(true);
    await wait();
    expect(began).toEqual(['state at 10', 'state at 3']);
    expect(source.opened.at(-1)).toBe('log_2:3');
  });

  it('keeps asking while there is no daemon', async () => {
    const { source, feed, links, wait } = followed();
    source.broken = true;
    await feed.start();
    await wait();
    source.broken = false;
    await wait();
    expect(source.snapshots).toBe(3);
    expect(links.at(-1)).toBe('live');
  });
});
