// The footer: how dense the log is over time, where in it the page looks, and how the team is.

import { useMemo, useRef } from 'react';
import { agentShape, agentWord, Glyph, type Shape } from '../parts/Glyph';
import { Icon } from '../parts/Icon';
import { clock, clockSeconds, useNow } from '../parts/time';
import { type Scale, scale } from '../layout/timeline';
import { isTrouble } from '../store/describe';
import type { LogEvent } from '../store/event';
import { useWorld } from '../store/hooks';
import { live, lookAt, usePast } from '../store/replay';
import { useStore } from '../store/store';
import { step, stepFrom } from './keys';

const BARS = 120;

export function Transport({ onHelp }: { onHelp: () => void }) {
  const head = useStore((state) => state.head);
  const past = usePast();
  const at = past?.at ?? head;
  return (
    <footer className="transport" aria-label="Replay and state">
      <div className="group">
        <button type="button" aria-label="Previous event" onClick={() => step(-1)}><Icon name="previous" /></button>
        <button type="button" aria-label="Next event" onClick={() => step(1)}><Icon name="next" /></button>
      </div>
      <Scrub />
      <Standing />
      <span className="num quiet wide">Event {at.toLocaleString()}</span>
      <span className="rule wide" />
      <Counts />
      <button type="button" className="wide" onClick={onHelp} aria-label="Keys"><kbd>?</kbd></button>
    </footer>
  );
}

function Scrub() {
  const events = useStore((state) => state.events);
  const head = useStore((state) => state.head);
  const past = usePast();
  const track = useRef<HTMLDivElement>(null);
  // Redrawn once a second at most: the picture is of minutes.
  const now = useNow();
  const { bars, line } = useMemo(() => density(events), [now, events.length === 0]);
  const at = past?.at ?? head;
  const place = past && line ? line.at(past.time) : 1;
  const to = (seq: number) => {
    const wanted = Math.round(seq);
    stepFrom(wanted >= head ? undefined : wanted);
    void lookAt(wanted);
  };
  const keys = (event: React.KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -100, PageDown: 100 }[event.key];
    if (by !== undefined) to(at + by);
    else if (event.key === 'Home') to(1);
    else if (event.key === 'End') live();
    else return;
    event.preventDefault();
  };
  return (
    <>
      <span className="num quiet wide">{line ? clock(line.from) : ''}</span>
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
        onClick={(event) => {
          const box = track.current?.getBoundingClientRect();
          const wanted = box && (event.clientX - box.left) / box.width;
          if (wanted === undefined || !line) return;
          to(events.findLast((entry) => line.at(entry.at) <= wanted)?.seq ?? 1);
        }}
      >
        {bars.map((bar, index) => <i key={index} className={bar.trouble ?? ''} style={{ height: `${bar.height}px` }} />)}
        <span className="knob" style={{ left: `calc(${place * 100}% - ${place * 2}px)` }} />
      </div>
    </>
  );
}

interface Bar { height: number; trouble: 'bad' | 'warn' | undefined }

/** How much happened when, among the events that the page has. Long pauses are folded, as on the time line of a run. */
function density(events: readonly LogEvent[]): { bars: Bar[]; line: Scale | undefined } {
  const first = events[0];
  const last = events.at(-1);
  const bars: Bar[] = Array.from({ length: BARS }, () => ({ height: 2, trouble: undefined }));
  if (!first || !last) return { bars, line: undefined };
  const piece = Math.max(1, (last.at - first.at) / (BARS * 4));
  const busy = new Set(events.map((event) => Math.floor((event.at - first.at) / piece)));
  const line = scale([...busy].map((index) => ({ from: first.at + index * piece, to: first.at + (index + 1) * piece })), last.at);
  const counts = new Array<number>(BARS).fill(0);
  for (const event of events) {
    const index = Math.min(BARS - 1, Math.floor(line.at(event.at) * BARS));
    counts[index] = (counts[index] ?? 0) + 1;
    const bar = bars[index];
    const trouble = isTrouble(event);
    if (bar && trouble) bar.trouble = bar.trouble === 'bad' ? 'bad' : trouble;
  }
  const most = Math.max(...counts);
  counts.forEach((count, index) => {
    const bar = bars[index];
    if (bar && count > 0) bar.height = 4 + Math.round((Math.sqrt(count) / Math.sqrt(most)) * 22);
  });
  return { bars, line };
}

function Standing() {
  const link = useStore((state) => state.link);
  const past = usePast();
  const now = useNow();
  if (past) return <><span className="num">{clockSeconds(past.time)}</span><button type="button" className="live past" onClick={live}>Past, return (L)</button></>;
  const words = { connecting: 'Connecting', live: 'Live', behind: link.is === 'behind' ? `${link.by.toLocaleString()} behind` : '', away: 'Reconnecting' }[link.is];
  const tone = { connecting: ' behind', live: '', behind: ' behind', away: ' away' }[link.is];
  return (
    <>
      <span className="num wide">{clockSeconds(now)}</span>
      <span className={`live${tone}`} role="status"><i className={`dot${tone}`} />{words}</span>
    </>
  );
}

const COUNTED: Shape[] = ['working', 'waiting', 'blocked', 'stale', 'idle'];

function Counts() {
  const { agents } = useWorld();
  const beats = useStore((state) => state.beats);
  const now = useNow();
  const counts = useMemo(() => {
    const found = new Map<Shape, number>();
    for (const agent of agents.values()) {
      const beat = beats.get(agent.id);
      const shape = agentShape(agent, beat === undefined ? undefined : now - beat);
      found.set(shape, (found.get(shape) ?? 0) + 1);
    }
    return found;
  }, [agents, beats, now]);
  return (
    <div className="counts num wide">
      {COUNTED.filter((shape) => (counts.get(shape) ?? 0) > 0).map((shape) => (
        <span key={shape}><Glyph shape={shape} label={agentWord(shape)} />{counts.get(shape)}</span>
      ))}
    </div>
  );
}
