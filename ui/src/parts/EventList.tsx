// The one list for long things: only rows in sight exist. Following the end is explicit: scrolling up stops it, a button resumes
// it. The library behind it is known here and nowhere else.

import { type ReactElement, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { VList, type VListHandle } from 'virtua';

interface Props {
  count: number;
  /** A row; its key is what it is known by when others come before it. */
  render: (index: number) => ReactElement;
  label: string;
  role?: 'log' | 'list';
  /** Rows before the first are wanted. */
  onStart?: () => void;
  /** Which rows are in sight. */
  onSight?: (first: number, last: number) => void;
  /** A row to be in sight, once for each key. */
  focus?: number | undefined;
  /** What that row is known by, where its place changes. */
  focusKey?: string | undefined;
  /** Each change goes to the end. */
  goToEnd?: number;
  /** Rows are added at the beginning: keep what is in sight. */
  shift?: boolean;
  paused?: boolean;
  /** How high a row is, where all are alike: then the whole length is known before they were seen. */
  height?: number;
  /** Changes when what the last row shows does. */
  stamp?: unknown;
}

const NEAR = 40;

export function EventList({ count, render, label, role = 'list', onStart, onSight, focus, focusKey, goToEnd = 0, shift = false, paused = false, height, stamp }: Props) {
  const list = useRef<VListHandle>(null);
  const frame = useRef<HTMLDivElement>(null);
  const [following, setFollowing] = useState(focus === undefined);
  const [seen, setSeen] = useState(count);
  // Rows get their heights as they are shown, which scrolls too: only the person's own scrolling stops following.
  const touched = useRef(false);
  const follow = following && !paused;
  const toEnd = () => count > 0 && list.current?.scrollToIndex(count - 1, { align: 'end' });

  useLayoutEffect(() => {
    if (!follow) return;
    toEnd();
    setSeen(count);
  }, [count, stamp, follow]);

  // The place for the list changes with what is below it, such as a growing text: stay at the end.
  useEffect(() => {
    const watched = frame.current;
    if (!watched) return;
    const observer = new ResizeObserver(() => {
      if (follow) toEnd();
    });
    observer.observe(watched);
    return () => observer.disconnect();
  }, [follow, count]);

  const isThere = focus !== undefined && focus >= 0;
  const shown = useRef<string | number>(undefined);
  useEffect(() => {
    const key = focusKey ?? focus;
    if (!isThere || key === undefined) return;
    // While rows are still loaded around it, it stays in sight, until the person scrolls or the list follows the end.
    if (shown.current !== key) touched.current = false;
    else if (touched.current || following) return;
    shown.current = key;
    setFollowing(false);
    list.current?.scrollToIndex(focus, { align: 'center' });
    const frame = requestAnimationFrame(() => isAtEnd() && setFollowing(true));
    return () => cancelAnimationFrame(frame);
  }, [focusKey ?? focus, isThere, focus, count]);

  useEffect(() => {
    if (goToEnd === 0) return;
    setFollowing(true);
    toEnd();
  }, [goToEnd]);

  const isAtEnd = () => {
    const handle = list.current;
    return handle !== null && handle.scrollOffset + handle.viewportSize >= handle.scrollSize - NEAR;
  };

  const sight = () => {
    const handle = list.current;
    if (handle && onSight) onSight(handle.findItemIndex(handle.scrollOffset), handle.findItemIndex(handle.scrollOffset + handle.viewportSize));
  };
  useEffect(sight);

  const scrolled = (offset: number) => {
    const handle = list.current;
    if (!handle) return;
    const atEnd = offset + handle.viewportSize >= handle.scrollSize - NEAR;
    if (atEnd) {
      touched.current = false;
      if (!following) setFollowing(true);
      setSeen(count);
    } else if (following && touched.current) setFollowing(false);
    else if (follow) toEnd();
    if (offset < 200 && !(follow && handle.scrollSize > handle.viewportSize)) onStart?.();
    sight();
  };

  const touch = () => {
    touched.current = true;
  };
  const fresh = Math.max(0, count - seen);
  return (
    <div
      className="feed" ref={frame}
      onWheel={touch} onTouchMove={touch} onPointerDown={touch} onKeyDown={touch}
      role={role} aria-label={label} {...(role === 'log' ? { 'aria-live': 'off' } : {})} tabIndex={0}>
      <VList ref={list} shift={shift} onScroll={scrolled} style={{ height: '100%' }} data={{ length: count }} {...(height ? { itemSize: height } : {})}>
        {(_: unknown, index: number) => render(index)}
      </VList>
      {!following && count > 0 && (
        <button
          type="button"
          className="resume"
          onClick={() => {
            touched.current = false;
            setFollowing(true);
            toEnd();
          }}
        >
          {fresh > 0 ? `${fresh.toLocaleString()} new, jump to live` : 'Jump to live'}
        </button>
      )}
    </div>
  );
}
