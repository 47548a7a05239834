// Short words about what a person did.

import { useSyncExternalStore } from 'react';

export interface Toast { id: number; text: string; tone: 'good' | 'bad' }

let toasts: readonly Toast[] = [];
let next = 1;
const listeners = new Set<() => void>();

function set(list: readonly Toast[]): void {
  toasts = list;
  for (const listener of listeners) listener();
}

export function tell(text: string, tone: 'good' | 'bad' = 'good'): void {
  const toast = { id: next++, text, tone };
  set([...toasts.slice(-3), toast]);
  setTimeout(() => set(toasts.filter((entry) => entry.id !== toast.id)), tone === 'bad' ? 9000 : 3500);
}

export function useToasts(): readonly Toast[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => toasts,
  );
}
