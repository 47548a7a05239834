// How much happened when, over the whole log: from every event where they are known, and from a few of them where they are not.

import { type Scale, scale } from './timeline';

export type Trouble = 'bad' | 'warn';

/** An event that is known. Those between it and the one before happened somewhere between the two. */
export interface Point { seq: number; at: number; trouble: Trouble | undefined }

export interface Bar { height: number; trouble: Trouble | undefined }

export interface Density { bars: Bar[]; line: Scale | undefined }

const LOWEST = 2;
const HIGHEST = 26;

export function density(points: readonly Point[], count: number): Density {
  const [first, last] = [points[0], points.at(-1)];
  const bars: Bar[] = Array.from({ length: count }, () => ({ height: LOWEST, trouble: undefined }));
  if (!first || !last) return { bars, line: undefined };
  const line = scale(busy(points, first.at, last.at, count), last.at);
  const place = (time: number) => Math.min(count - 1, Math.floor(line.at(time) * count));
  const weights = new Array<number>(count).fill(0);
  points.forEach((point, index) => {
    const before = points[index - 1];
    const here = place(point.at);
    const from = before && point.seq - before.seq > 1 ? place(before.at) : here;
    const each = (before ? point.seq - before.seq : 1) / (here - from + 1);
    for (let bar = from; bar <= here; bar += 1) weights[bar] = (weights[bar] ?? 0) + each;
    const bar = bars[here];
    if (bar && point.trouble) bar.trouble = bar.trouble === 'bad' ? 'bad' : point.trouble;
  });
  const most = Math.max(...weights);
  weights.forEach((weight, index) => {
    const bar = bars[index];
    if (bar && weight > 0) bar.height = LOWEST * 2 + Math.round(Math.sqrt(weight / most) * (HIGHEST - LOWEST * 2));
  });
  return { bars, line };
}

/** When something went on; long pauses between known events are none of it. */
function busy(points: readonly Point[], from: number, to: number, count: number) {
  const piece = Math.max(1, (to - from) / (count * 4));
  const stretches = new Map<number, { from: number; to: number }>();
  points.forEach((point, index) => {
    const slot = Math.floor((point.at - from) / piece);
    stretches.set(slot, { from: from + slot * piece, to: from + (slot + 1) * piece });
    const before = points[index - 1];
    if (before && point.seq - before.seq > 1) stretches.set(-1 - index, { from: before.at, to: point.at });
  });
  return [...stretches.values()];
}

/** The event at a place of the line, from 0 to 1. */
export function seqAt(points: readonly Point[], line: Scale, place: number): number {
  const index = points.findLastIndex((point) => line.at(point.at) <= place);
  const [before, after] = [points[index], points[index + 1]];
  if (!before) return points[0]?.seq ?? 1;
  if (!after || after.seq - before.seq === 1) return before.seq;
  const [left, right] = [line.at(before.at), line.at(after.at)];
  const part = right > left ? (place - left) / (right - left) : 0;
  return Math.round(before.seq + part * (after.seq - before.seq));
}
