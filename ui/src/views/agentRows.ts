// The rows of the agents' table and their order.

import type { Shape } from '../parts/Glyph';
import type { Post } from '../store/roster';
import type { Load } from './useLoads';

export type Column = 'state' | 'agent' | 'tool' | 'since' | 'beat' | 'event' | 'holding' | 'claims' | 'inbox';
export type Row = Post & Load;

/** In the order in which somebody has to look. */
export const SHAPES: Shape[] = ['stale', 'blocked', 'silent', 'waiting', 'working', 'paused', 'idle', 'offline'];

export function compare(column: Column, down: boolean): (a: Row, b: Row) => number {
  return (a, b) => {
    const [x, y] = [value(a, column), value(b, column)];
    const order = x < y ? -1 : x > y ? 1 : a.agent.id < b.agent.id ? -1 : 1;
    return down ? -order : order;
  };
}

function value(row: Row, column: Column): number | string {
  switch (column) {
    case 'state': return SHAPES.indexOf(row.shape);
    case 'agent': return row.agent.id;
    case 'tool': return row.agent.tool;
    case 'since': return row.agent.since;
    case 'beat': return row.beat ?? 0;
    case 'event': return row.agent.lastEvent;
    case 'holding': return row.agent.holding;
    case 'claims': return row.claims;
    case 'inbox': return row.inbox;
  }
}
