// The difference between two texts by lines: the longest common lines stay, the rest was removed or added.

export interface Line { is: 'same' | 'added' | 'removed'; text: string }

/** Larger pairs are shown as wholly replaced, because the table would be too large. */
const MOST = 4_000_000;

export function difference(before: string, after: string): Line[] {
  const [a, b] = [before.split('\n'), after.split('\n')];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const middle = changed(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const same = (text: string): Line => ({ is: 'same', text });
  return [...a.slice(0, start).map(same), ...middle, ...a.slice(a.length - end).map(same)];
}

function changed(a: string[], b: string[]): Line[] {
  const removed = (text: string): Line => ({ is: 'removed', text });
  const added = (text: string): Line => ({ is: 'added', text });
  if (a.length * b.length > MOST) return [...a.map(removed), ...b.map(added)];
  const width = b.length + 1;
  const common = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      common[i * width + j] = a[i] === b[j]
        ? (common[(i + 1) * width + j + 1] ?? 0) + 1
        : Math.max(common[(i + 1) * width + j] ?? 0, common[i * width + j + 1] ?? 0);
    }
  }
  const lines: Line[] = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      lines.push({ is: 'same', text: a[i] ?? '' });
      i += 1;
      j += 1;
    } else if ((common[(i + 1) * width + j] ?? 0) >= (common[i * width + j + 1] ?? 0)) lines.push(removed(a[i++] ?? ''));
    else lines.push(added(b[j++] ?? ''));
  }
  return [...lines, ...a.slice(i).map(removed), ...b.slice(j).map(added)];
}
