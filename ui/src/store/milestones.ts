// A few events of the part of the log that the page does not have, so that the line at the bottom is of all of it.

import { useEffect, useState } from 'react';
import { events as readEvents } from '../api/client';
import type { Point } from '../layout/density';
import { isTrouble } from './describe';
import { type LogEvent, read } from './event';
import { useStore } from './store';

const SAMPLES = 60;

/** Known events from the first of the log to the newest, all of the newer part. */
export function usePoints(events: readonly LogEvent[]): () => Point[] {
  const log = useStore((state) => state.log);
  const first = events[0]?.seq;
  // Asked for once for each log, when it is known where the events of the page begin.
  const edge = first === undefined ? undefined : first > 1;
  const [sampled, setSampled] = useState<Point[]>([]);
  useEffect(() => {
    setSampled([]);
    if (!edge || first === undefined) return;
    let wanted = true;
    sample(first - 1, (points) => wanted && setSampled(points));
    return () => {
      wanted = false;
    };
  }, [log, edge]);
  return () => [...sampled.filter((point) => point.seq < (first ?? 0)), ...events.map(pointOf)];
}

const pointOf = (event: LogEvent): Point => ({ seq: event.seq, at: event.at, trouble: isTrouble(event) });

async function sample(upto: number, found: (points: Point[]) => void): Promise<void> {
  const points: Point[] = [];
  const every = Math.max(1, (upto - 1) / (SAMPLES - 1));
  for (let place = 1; place <= upto; place += every) {
    const [row] = await readEvents(Math.floor(place) - 1, 1).catch(() => []);
    if (row) points.push(pointOf(read(row, Date.now())));
  }
  found(points);
}
