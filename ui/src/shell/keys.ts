// The keyboard. Single letters mean something only while nobody is writing.

import { useEffect, useLayoutEffect } from 'react';
import { at, go } from '../router';
import { live, play, step } from '../store/replay';
import { toggleTheme } from './theme';
import type { Over } from './App';

/** Where `g` and a letter go. */
export const GOES: Record<string, { to: string; name: string }> = {
  a: { to: at('attention'), name: 'Attention' },
  s: { to: at('stream'), name: 'Stream' },
  r: { to: at('runs'), name: 'Runs' },
  t: { to: at('tasks'), name: 'Tasks' },
  p: { to: at('agents'), name: 'Agents' },
  f: { to: at('files'), name: 'Files and claims' },
  h: { to: at('handoffs'), name: 'Handoffs' },
  d: { to: at('documents'), name: 'Documents' },
  o: { to: at('artifacts'), name: 'Artifacts' },
  w: { to: at('start'), name: 'Start a workflow file' },
  c: { to: at('c', 'default'), name: 'the general channel' },
};

const AFTER_G_MILLIS = 1500;
const NEVER = Number.NEGATIVE_INFINITY;

/** Keys that views listen for: they get them as events of the page. */
export type Deed = 'next' | 'previous' | 'open' | 'peek' | 'acknowledge' | 'approve' | 'reply';

const DEEDS: Record<string, Deed> = {
  j: 'next', k: 'previous', Enter: 'open', ' ': 'peek', e: 'acknowledge', a: 'approve', r: 'reply',
};

export function useKeys(show: (over: Over) => void): void {
  useEffect(() => {
    let pressedG = NEVER;
    const pressed = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        return show('commands');
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target)) return;
      if (performance.now() - pressedG < AFTER_G_MILLIS && GOES[event.key]) {
        pressedG = NEVER;
        event.preventDefault();
        return go(GOES[event.key]?.to ?? '/ui');
      }
      pressedG = NEVER;
      switch (event.key) {
        case 'g':
          pressedG = performance.now();
          return;
        case '?': return show('help');
        case 'Escape': return show('none');
        case 'L': return live();
        case 'P': return play();
        case 'T': return toggleTheme();
        case '/': return filter(event);
        case '[':
        case ']': return step(event.key === ']' ? 1 : -1);
      }
      const deed = DEEDS[event.key];
      const onControl = event.target instanceof Element && event.target.closest('a, button, input, select, [role="option"]');
      if (deed && !(onControl && (event.key === 'Enter' || event.key === ' '))) {
        const mine = new CustomEvent<Deed>('deed', { detail: deed, cancelable: true });
        if (!dispatchEvent(mine)) event.preventDefault();
      }
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, [show]);
}

/** To what narrows the view down, wherever that is. */
function filter(event: KeyboardEvent): void {
  event.preventDefault();
  const bar = document.querySelector('.main .bar');
  (bar?.querySelector<HTMLElement>('input, select') ?? bar?.querySelector<HTMLElement>('button'))?.focus();
}

/** What a view does with the keys that are about its rows. */
export function useDeeds(handle: (deed: Deed) => boolean): void {
  // Before the rows are painted: a key that follows at once must meet the choice that is shown, not the one before.
  useLayoutEffect(() => {
    const listener = (event: Event) => {
      if (handle((event as CustomEvent<Deed>).detail)) event.preventDefault();
    };
    addEventListener('deed', listener);
    return () => removeEventListener('deed', listener);
  });
}

function isWriting(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}
