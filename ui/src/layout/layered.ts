// Where the tasks of a run stand: in layers by what they wait for, ordered so that few edges cross. The same tasks give the same
// picture every time: nothing depends on the order in which they came or on chance.

export interface Node { id: string; deps: readonly string[] }
export interface Spot { id: string; layer: number; row: number; x: number; y: number }
export interface Edge { from: string; to: string; path: string }
export interface Picture { spots: Map<string, Spot>; edges: Edge[]; width: number; height: number }

export interface Sizes { width: number; height: number; gapX: number; gapY: number }

export const SIZES: Sizes = { width: 132, height: 40, gapX: 40, gapY: 20 };
/** For a narrow place beside something else. */
export const COMPACT: Sizes = { width: 110, height: 40, gapX: 19, gapY: 14 };
const SWEEPS = 6;

export function layered(nodes: readonly Node[], sizes: Sizes = SIZES): Picture {
  const sorted = [...nodes].sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  const known = new Map(sorted.map((node) => [node.id, node]));
  const deps = new Map(sorted.map((node) => [node.id, node.deps.filter((dep) => known.has(dep) && dep !== node.id)]));
  const layer = layers(sorted, deps);
  const columns = arranged(sorted, deps, layer);
  return placed(columns, deps, layer, sizes);
}

/** The longest way from a beginning. What waits in a circle is put where the circle was entered. */
function layers(nodes: readonly Node[], deps: Map<string, string[]>): Map<string, number> {
  const layer = new Map<string, number>();
  const open = new Set<string>();
  const visit = (id: string): number => {
    const done = layer.get(id);
    if (done !== undefined) return done;
    if (open.has(id)) return -1;
    open.add(id);
    const own = (deps.get(id) ?? []).reduce((most, dep) => Math.max(most, visit(dep) + 1), 0);
    open.delete(id);
    layer.set(id, own);
    return own;
  };
  for (const node of nodes) visit(node.id);
  return layer;
}

/** The columns, each ordered by where the neighbours of its nodes are, forth and back a few times. */
function arranged(nodes: readonly Node[], deps: Map<string, string[]>, layer: Map<string, number>): string[][] {
  const columns: string[][] = [];
  for (const { id } of nodes) (columns[layer.get(id) ?? 0] ??= []).push(id);
  for (let index = 0; index < columns.length; index += 1) columns[index] ??= [];
  const dependents = new Map<string, string[]>();
  for (const { id } of nodes) dependents.set(id, []);
  for (const [id, list] of deps) for (const dep of list) dependents.get(dep)?.push(id);
  const row = new Map<string, number>();
  const note = (column: string[]) => column.forEach((id, index) => row.set(id, index));
  columns.forEach(note);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forth = sweep % 2 === 0;
    const neighbours = forth ? deps : dependents;
    const order = forth ? columns.keys() : [...columns.keys()].reverse();
    for (const index of order) {
      const column = columns[index] ?? [];
      const centre = new Map(column.map((id) => [id, mean(neighbours.get(id) ?? [], row, row.get(id) ?? 0)]));
      column.sort((a, b) => (centre.get(a) ?? 0) - (centre.get(b) ?? 0) || (row.get(a) ?? 0) - (row.get(b) ?? 0));
      note(column);
    }
  }
  return columns;
}

function mean(ids: readonly string[], row: Map<string, number>, otherwise: number): number {
  if (ids.length === 0) return otherwise;
  return ids.reduce((sum, id) => sum + (row.get(id) ?? 0), 0) / ids.length;
}

function placed(columns: string[][], deps: Map<string, string[]>, layer: Map<string, number>, sizes: Sizes): Picture {
  const most = Math.max(1, ...columns.map((column) => column.length));
  const step = { x: sizes.width + sizes.gapX, y: sizes.height + sizes.gapY };
  const height = most * step.y - sizes.gapY;
  const spots = new Map<string, Spot>();
  columns.forEach((column, index) => {
    const top = (height - (column.length * step.y - sizes.gapY)) / 2;
    column.forEach((id, place) => spots.set(id, { id, layer: index, row: place, x: index * step.x, y: top + place * step.y }));
  });
  const edges: Edge[] = [];
  for (const [to, list] of deps) {
    for (const from of list) {
      const [a, b] = [spots.get(from), spots.get(to)];
      if (a && b && (layer.get(from) ?? 0) < (layer.get(to) ?? 0)) edges.push({ from, to, path: curve(a, b, sizes) });
    }
  }
  return { spots, edges, width: Math.max(sizes.width, columns.length * step.x - sizes.gapX), height };
}

function curve(a: Spot, b: Spot, sizes: Sizes): string {
  const [x1, y1, x2, y2] = [a.x + sizes.width, a.y + sizes.height / 2, b.x, b.y + sizes.height / 2];
  if (y1 === y2) return `M${x1} ${y1}H${x2}`;
  // The bend is in the last gap, so that a long edge runs straight as far as it can.
  const bend = Math.min(sizes.gapX, x2 - x1);
  return `M${x1} ${y1}H${x2 - bend}C${x2 - bend / 2} ${y1} ${x2 - bend / 2} ${y2} ${x2} ${y2}`;
}
