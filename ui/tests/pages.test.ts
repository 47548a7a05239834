import { describe, expect, it } from 'vitest';
import type { Placed } from '../src/store/event';
import { PAGE, Pages } from '../src/store/pages';

const HEAD = 100_000;

function asked(first = 1) {
  const calls: number[] = [];
  const read = async (after: number, limit: number): Promise<Placed[]> => {
    calls.push(after);
    const from = Math.max(after + 1, first);
    return Array.from({ length: Math.max(0, Math.min(HEAD, after + limit) - from + 1) }, (_, index) => ({
      seq: from + index,
      message: { id: '', ts: '2026-01-01T00:00:00Z', type: 'x.note', run_id: '', thread_id: '', from: { agent_id: 'agent:a' }, to: [], payload: {} },
    })) as Placed[];
  };
  return { pages: new Pages(read), calls };
}

const settle = async () => {
  for (let turn = 0; turn < 50; turn += 1) await Promise.resolve();
};

describe('the log by pages', () => {
  it('has what is in sight, and asks for it once', async () => {
    const { pages, calls } = asked();
    pages.want(240, 260, HEAD);
    pages.want(240, 260, HEAD);
    await settle();
    expect(calls).toEqual([0, PAGE]);
    expect(pages.get(250)).toMatchObject({ seq: 250 });
    expect(pages.get(251)).toMatchObject({ seq: 251 });
    pages.want(1, 500, HEAD);
    await settle();
    expect(calls).toHaveLength(2);
  });

  it('reads only what is wanted at last when somebody drags through all of it', async () => {
    const { pages, calls } = asked();
    for (let seq = HEAD; seq > 0; seq -= 100) pages.want(seq - 40, seq, HEAD);
    await settle();
    expect(calls.length).toBeLessThan(5);
    expect(pages.get(70)).toMatchObject({ seq: 70 });
  });

  it('keeps no more than a bound', async () => {
    const { pages } = asked();
    for (let seq = 1; seq < HEAD; seq += PAGE) {
      pages.want(seq, seq, HEAD);
      await settle();
    }
    expect(pages.count).toBeLessThanOrEqual(80);
  });

  it('tells what the log does not have any more', async () => {
    const { pages } = asked(100);
    pages.want(90, 110, HEAD);
    await settle();
    expect(pages.get(99)).toBe('gone');
    expect(pages.get(100)).toMatchObject({ seq: 100 });
    expect(pages.get(9999)).toBeUndefined();
  });
});
