// The one list for long things: only rows in sight exist. Following the end is explicit: scrolling up stops it, a button resumes
// it. The library behind it is known here and nowhere else.

import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { VList, type VListHandle } from 'virtua';

interface Props<Row> {
  rows: readonly Row[];
  keyOf: (row: Row) => string | number;
  render: (row: Row, index: number) => ReactNode;
  label: string;
  role?: 'log' | 'list';
  /** Rows before the first are wanted. */
  onStart?: () => void;
  /** A row to be in sight, by key. */
  focus?: string | number | undefined;
  /** Rows are added at the beginning: keep what is in sight. */
  shift?: boolean;
  paused?: boolean;
}

const NEAR = 40;

export function EventList<Row>({ rows, keyOf, render, label, role = 'list', onStart, focus, shift = false, paused = false }: Props<Row>) {
  const list = useRef<VListHandle>(null);
  const frame = useRef<HTMLDivElement>(null);
  const [following, setFollowing] = useState(focus === undefined);
  const [seen, setSeen] = useState(rows.length);
  const follow = following && !paused;

  useLayoutEffect(() => {
    if (!follow || rows.length === 0) return;
    list.current?.scrollToIndex(rows.length - 1, { align: 'end' });
    setSeen(rows.length);
  }, [rows, follow]);

  // The place for the list changes with what is below it, such as a growing text: stay at the end.
  useEffect(() => {
    const watched = frame.current;
    if (!watched) return;
    const observer = new ResizeObserver(() => {
      if (follow && rows.length > 0) list.current?.scrollToIndex(rows.length - 1, { align: 'end' });
    });
    observer.observe(watched);
    return () => observer.disconnect();
  }, [follow, rows.length]);

  const focused = focus === undefined ? -1 : rows.findIndex((row) => keyOf(row) === focus);
  useEffect(() => {
    if (focused >= 0) {
      setFollowing(false);
      list.current?.scrollToIndex(focused, { align: 'center' });
    }
  }, [focused]);

  const scrolled = (offset: number) => {
    const handle = list.current;
    if (!handle) return;
    const atEnd = offset + handle.viewportSize >= handle.scrollSize - NEAR;
    if (atEnd !== following) setFollowing(atEnd);
    if (atEnd) setSeen(rows.length);
    if (offset < 200) onStart?.();
  };

  const fresh = Math.max(0, rows.length - seen);
  return (
    <div className="feed" ref={frame} role={role} aria-label={label} {...(role === 'log' ? { 'aria-live': 'off' } : {})} tabIndex={0}>
      <VList ref={list} shift={shift} onScroll={scrolled} style={{ height: '100%' }}>
        {rows.map((row, index) => <div key={keyOf(row)}>{render(row, index)}</div>)}
      </VList>
      {!following && rows.length > 0 && (
        <button
          type="button"
          className="resume"
          onClick={() => {
            setFollowing(true);
            list.current?.scrollToIndex(rows.length - 1, { align: 'end' });
          }}
        >
          {fresh > 0 ? `${fresh.toLocaleString()} new, jump to live` : 'Jump to live'}
        </button>
      )}
    </div>
  );
}
