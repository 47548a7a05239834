// The line that is the log: where much happened, where there was trouble, and a knob for where the page looks.

import { useMemo, useRef } from 'react';
import { density, seqAt } from '../layout/density';
import { clock, isSameDay, shortDay, useNow } from '../parts/time';
import { usePoints } from '../store/milestones';
import { live, lookAt, usePast } from '../store/replay';
import { useStore } from '../store/store';

const BARS = 120;

export function Scrub() {
  const events = useStore((state) => state.events);
  const head = useStore((state) => state.head);
  const past = usePast();
  const track = useRef<HTMLDivElement>(null);
  // Redrawn once a second at most: the picture is of minutes.
  const now = useNow();
  const read = usePoints(events);
  const { points, bars, line } = useMemo(() => {
    const known = read();
    return { points: known, ...density(known, BARS) };
  }, [now, events.length === 0]);
  const at = past?.at ?? head;
  const place = past && line ? line.at(past.time) : 1;
  const keys = (event: React.KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -100, PageDown: 100 }[event.key];
    if (by !== undefined) void lookAt(at + by);
    else if (event.key === 'Home') void lookAt(1);
    else if (event.key === 'End') live();
    else return;
    event.preventDefault();
  };
  const pointed = (event: React.PointerEvent) => {
    const box = track.current?.getBoundingClientRect();
    if (!box) return;
    const wanted = (event.clientX - box.left) / box.width;
    if (wanted >= 1) live();
    else void lookAt(line ? seqAt(points, line, wanted) : Math.round(wanted * head));
  };
  return (
    <>
      <span className="num quiet wide">{line ? (isSameDay(line.from, now) ? clock(line.from) : shortDay(line.from)) : ''}</span>
      <div
        ref={track}
        className={past ? 'scrub past' : 'scrub'}
        role="slider"
        tabIndex={0}
        aria-label="Position in the log"
        aria-valuemin={1}
        aria-valuemax={Math.max(1, head)}
        aria-valuenow={Math.max(1, at)}
        aria-valuetext={past ? `Event ${at}` : `Live, event ${head}`}
        onKeyDown={keys}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          pointed(event);
        }}
        onPointerMove={(event) => event.currentTarget.hasPointerCapture(event.pointerId) && pointed(event)}
      >
        {bars.map((bar, index) => <i key={index} className={bar.trouble ?? ''} style={{ height: `${bar.height}px` }} />)}
        <span className="knob" style={{ left: `calc(${place * 100}% - ${place * 2}px)` }} />
      </div>
    </>
  );
}
