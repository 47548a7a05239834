// A graph without the work that is done: what is done and still in sight stands for all that is done behind it.

export interface Foldable { id: string; dependsOn: readonly string[] }

export interface Folded<T> {
  shown: { node: T; behind: number }[];
  /** How many are left out. */
  hidden: number;
}

/** Leaves out what has ended, except where something open comes right after it. */
export function folded<T extends Foldable>(nodes: readonly T[], hasEnded: (node: T) => boolean): Folded<T> {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const open = nodes.filter((node) => !hasEnded(node));
  const edge = new Set(open.flatMap((node) => node.dependsOn));
  const kept = nodes.filter((node) => !hasEnded(node) || edge.has(node.id));
  const isKept = new Set(kept.map((node) => node.id));
  const taken = new Set<string>();
  // What two of them have behind them is counted once, at the first.
  const behind = (node: T): number => {
    let count = 0;
    const stack = [...node.dependsOn];
    for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
      const before = byId.get(id);
      if (!before || isKept.has(id) || taken.has(id)) continue;
      taken.add(id);
      count += 1;
      stack.push(...before.dependsOn);
    }
    return count;
  };
  return { shown: kept.map((node) => ({ node, behind: behind(node) })), hidden: nodes.length - kept.length };
}

/** What leads to a node and what follows from it, with itself. */
export function kin(nodes: readonly Foldable[], id: string): Set<string> {
  const before = new Map(nodes.map((node) => [node.id, node.dependsOn]));
  const after = new Map<string, string[]>();
  for (const node of nodes) for (const dep of node.dependsOn) after.set(dep, [...(after.get(dep) ?? []), node.id]);
  const found = new Set([id]);
  for (const next of [before, after] as ReadonlyMap<string, readonly string[]>[]) {
    const seen = new Set<string>();
    const stack = [id];
    for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
      if (seen.has(at)) continue;
      seen.add(at);
      found.add(at);
      stack.push(...(next.get(at) ?? []));
    }
  }
  return found;
}
