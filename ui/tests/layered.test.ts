import { expect, it } from 'vitest';
import { layered, type Node, SIZES } from '../src/layout/layered';

/** A graph that is large, tangled and the same every time. */
function tangled(count: number): Node[] {
  let seed = 7;
  const next = () => (seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff);
  return Array.from({ length: count }, (_, index) => ({
    id: `task_${index}`,
    deps: index === 0 ? [] : Array.from({ length: next() % 3 }, () => `task_${next() % index}`),
  }));
}

it('puts every task behind what it waits for', () => {
  const nodes = tangled(200);
  const { spots } = layered(nodes);
  for (const node of nodes) {
    for (const dep of node.deps) expect(spots.get(dep)?.x).toBeLessThan(spots.get(node.id)?.x ?? 0);
  }
});

it('is the same picture whatever order the tasks come in', () => {
  const nodes = tangled(200);
  const mixed = [...nodes].sort((a, b) => (a.id.length * 31 + Number(a.id.slice(5)) * 17) % 101 - ((b.id.length * 31 + Number(b.id.slice(5)) * 17) % 101));
  expect([...layered(mixed).spots].sort()).toEqual([...layered(nodes).spots].sort());
});

it('puts no two tasks on top of each other, and all of them into the picture', () => {
  const { spots, width, height } = layered(tangled(1000));
  const taken = new Set<string>();
  for (const { x, y } of spots.values()) {
    expect(taken.has(`${x} ${y}`)).toBe(false);
    taken.add(`${x} ${y}`);
    expect(x >= 0 && x + SIZES.width <= width && y >= 0 && y + SIZES.height <= height).toBe(true);
  }
  const columns = new Map<number, number[]>();
  for (const { x, y } of spots.values()) columns.set(x, [...(columns.get(x) ?? []), y]);
  for (const rows of columns.values()) {
    rows.sort((a, b) => a - b);
    rows.forEach((y, index) => index > 0 && expect(y - (rows[index - 1] ?? 0)).toBeGreaterThanOrEqual(SIZES.height));
  }
});

it('draws what waits in a circle or for nobody known, too', () => {
  const { spots } = layered([{ id: 'a', deps: ['b'] }, { id: 'b', deps: ['a'] }, { id: 'c', deps: ['nowhere', 'c'] }]);
  expect(spots.size).toBe(3);
});

it('lays a thousand tasks out in less than 50 ms', () => {
  const nodes = tangled(1000);
  layered(nodes);
  const times = Array.from({ length: 5 }, () => {
    const began = performance.now();
    layered(nodes);
    return performance.now() - began;
  });
  const best = Math.min(...times);
  console.log(`layout of 1,000 tasks: ${best.toFixed(1)} ms, best of 5 (below 50)`);
  expect(best).toBeLessThan(50);
});
