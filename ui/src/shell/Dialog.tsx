// What lies over the page: takes the focus, keeps it, gives it back, and goes away by Escape or a click beside it.

import { type ReactNode, useEffect, useRef } from 'react';

export function Dialog({ label, onClose, children }: { label: string; onClose: () => void; children: ReactNode }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    const first = box.current?.querySelector<HTMLElement>('input, button, [tabindex]');
    (first ?? box.current)?.focus();
    return () => (before instanceof HTMLElement ? before.focus() : undefined);
  }, []);
  const keys = (event: React.KeyboardEvent) => {
    if (event.key === 'Escape') {
      event.stopPropagation();
      onClose();
    }
    if (event.key === 'Tab') keepInside(event, box.current);
  };
  return (
    <div className="veil" onMouseDown={(event) => event.target === event.currentTarget && onClose()}>
      <div className="dialog" role="dialog" aria-modal="true" aria-label={label} ref={box} tabIndex={-1} onKeyDown={keys}>
        {children}
      </div>
    </div>
  );
}

function keepInside(event: React.KeyboardEvent, box: HTMLElement | null): void {
  const stops = [...(box?.querySelectorAll<HTMLElement>('a[href], button:not(:disabled), input, textarea, select, [tabindex="0"]') ?? [])];
  const [first] = stops;
  const last = stops.at(-1);
  if (!first || !last) return event.preventDefault();
  if (event.shiftKey && document.activeElement === first) {
    event.preventDefault();
    last.focus();
  } else if (!event.shiftKey && document.activeElement === last) {
    event.preventDefault();
    first.focus();
  }
}
