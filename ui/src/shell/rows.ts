// Moving through rows by `j` and `k`, the same in every view.

import { useState } from 'react';
import { go } from '../router';
import { type Deed, useDeeds } from './keys';

/** What else a view does with the row that is chosen. Tells whether the key was for it. */
type Other = (deed: Deed, index: number) => boolean;

interface Rows { count: number; chosen: number; move: (index: number) => void }

export function useRows({ count, chosen, move }: Rows, other: Other = () => false): void {
  useDeeds((deed) => {
    const by = deed === 'next' ? 1 : deed === 'previous' ? -1 : 0;
    if (by === 0) return other(deed, chosen);
    if (count > 0) move(Math.max(0, Math.min(count - 1, chosen + by)));
    return count > 0;
  });
}

/** Rows whose choice is the view's own. */
export function useCursor(count: number, other: Other): [number, (index: number) => void] {
  const [at, setAt] = useState(0);
  const chosen = Math.min(at, count - 1);
  useRows({ count, chosen, move: setAt }, other);
  return [chosen, setAt];
}

/** Rows that are addresses: the chosen one is where the page is. */
export function useAddresses<Row>(rows: readonly Row[], isHere: (row: Row) => boolean, address: (row: Row) => string): void {
  const chosen = rows.findIndex(isHere);
  useRows({
    count: rows.length,
    chosen,
    move: (index) => {
      const row = rows[index];
      if (row !== undefined) go(address(row), 'replace');
    },
  });
}
