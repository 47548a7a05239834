// Time on a line, with the long stretches in which nothing happened folded away.

export interface Stretch { from: number; to: number }
export interface Scale {
  /** From 0 to 1. */
  at(time: number): number;
  /** Where time was folded, and how much of it. */
  folds: { at: number; millis: number }[];
  from: number;
  to: number;
}

/** A pause is folded if it takes more of the line than this. */
const LARGEST_PAUSE = 0.15;
/** How much of the line a folded pause keeps. */
const FOLDED = 0.03;

export function scale(stretches: readonly Stretch[], now: number): Scale {
  const from = Math.min(now, ...stretches.map((stretch) => stretch.from));
  const to = Math.max(from + 1, now, ...stretches.map((stretch) => stretch.to));
  const busy = merged(stretches);
  const pauses = gaps(busy, from, to).filter((gap) => gap.to - gap.from > (to - from) * LARGEST_PAUSE);
  const kept = to - from - pauses.reduce((sum, gap) => sum + (gap.to - gap.from), 0);
  const unit = (1 - pauses.length * FOLDED) / Math.max(1, kept);
  const at = (time: number): number => {
    const clamped = Math.max(from, Math.min(to, time));
    let place = 0;
    let before = from;
    for (const pause of pauses) {
      if (clamped <= pause.from) break;
      place += (pause.from - before) * unit;
      const within = Math.min(1, (clamped - pause.from) / (pause.to - pause.from));
      place += within * FOLDED;
      before = pause.to;
      if (clamped < pause.to) return place;
    }
    return Math.min(1, place + Math.max(0, clamped - before) * unit);
  };
  return { at, from, to, folds: pauses.map((pause) => ({ at: at(pause.from), millis: pause.to - pause.from })) };
}

function merged(stretches: readonly Stretch[]): Stretch[] {
  const sorted = [...stretches].sort((a, b) => a.from - b.from);
  const found: Stretch[] = [];
  for (const stretch of sorted) {
    const last = found.at(-1);
    if (last && stretch.from <= last.to) last.to = Math.max(last.to, stretch.to);
    else found.push({ ...stretch });
  }
  return found;
}

function gaps(busy: readonly Stretch[], from: number, to: number): Stretch[] {
  const found: Stretch[] = [];
  let before = from;
  for (const stretch of busy) {
    if (stretch.from > before) found.push({ from: before, to: stretch.from });
    before = Math.max(before, stretch.to);
  }
  if (to > before && busy.length > 0) found.push({ from: before, to });
  return found;
}

/** A few round times between the ends, for the axis. */
export function ticks(from: number, to: number, most = 4): number[] {
  const steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400].map((seconds) => seconds * 1000);
  const step = steps.find((candidate) => (to - from) / candidate <= most) ?? 86_400_000 * Math.ceil((to - from) / 86_400_000 / most);
  const first = Math.ceil(from / step) * step;
  const found: number[] = [];
  for (let time = first; time < to; time += step) found.push(time);
  return found;
}
