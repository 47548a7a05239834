// The edge between the view and the panel beside it: dragged, or moved by the arrows. How wide the panel is stays on this machine.

import { useEffect, useState } from 'react';

const KEY = 'rookery.panel';
const USUAL = 404;
const [NARROWEST, WIDEST] = [320, 760];
const STEP = 24;

const bounded = (width: number) => Math.round(Math.max(NARROWEST, Math.min(WIDEST, width)));

export function PanelEdge() {
  const [width, setWidth] = useState(() => bounded(Number(localStorage.getItem(KEY)) || USUAL));
  useEffect(() => {
    document.documentElement.style.setProperty('--panel', `${width}px`);
    localStorage.setItem(KEY, String(width));
  }, [width]);
  const keys = (event: React.KeyboardEvent) => {
    const by = { ArrowLeft: STEP, ArrowRight: -STEP }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    setWidth((before) => bounded(before + by));
  };
  return (
    <div
      className="edge-of-panel" role="separator" aria-orientation="vertical" aria-label="Width of the panel" tabIndex={0}
      aria-valuemin={NARROWEST} aria-valuemax={WIDEST} aria-valuenow={width} onKeyDown={keys}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={(event) => event.currentTarget.hasPointerCapture(event.pointerId) && setWidth(bounded(innerWidth - event.clientX))}
    />
  );
}
