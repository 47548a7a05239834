// States: the shape tells, the colour repeats it, and the text is always beside it or in the label.

import type { Agent, FileState, Task } from '../store/world';

export type Tone = 'idle' | 'run' | 'done' | 'block' | 'fail' | 'wait';
export type Shape =
  | 'idle' | 'paused' | 'assigned' | 'working' | 'silent' | 'waiting' | 'blocked' | 'conflicted' | 'failed' | 'done' | 'cancelled' | 'stale' | 'offline';

const TONES: Record<Shape, Tone> = {
  idle: 'idle', paused: 'idle', assigned: 'run', working: 'run', silent: 'block', waiting: 'wait', blocked: 'block', conflicted: 'block', failed: 'fail',
  done: 'done', cancelled: 'idle', stale: 'fail', offline: 'idle',
};

export function toneOf(shape: Shape): Tone {
  return TONES[shape];
}

/** A glyph. Without a label it is decoration for a text beside it. */
export function Glyph({ shape, label, small = false }: { shape: Shape; label?: string; small?: boolean }) {
  return (
    <svg
      className={`glyph tone-${TONES[shape]}${small ? ' small' : ''}`}
      viewBox="0 0 14 14"
      {...(label ? { role: 'img', 'aria-label': label } : { 'aria-hidden': true })}
    >
      <GlyphPaths shape={shape} />
    </svg>
  );
}

export function GlyphPaths({ shape }: { shape: Shape }) {
  const ring = { cx: 7, cy: 7, r: 4.8, fill: 'none', stroke: 'currentColor', strokeWidth: 1.6 };
  const mark = { fill: 'none', stroke: 'var(--bg)', strokeWidth: 1.5, strokeLinecap: 'round', strokeLinejoin: 'round' } as const;
  switch (shape) {
    case 'idle': return <circle {...ring} />;
    case 'paused': return <><circle {...ring} /><path d="M5.700 5v4M8.300 5v4" stroke="currentColor" strokeWidth="1.400" strokeLinecap="round" /></>;
    case 'assigned': return <><circle {...ring} /><circle cx="7" cy="7" r="1.7" fill="currentColor" /></>;
    case 'working': return <><circle {...ring} /><path d="M7 4.100a2.900 2.900 0 0 1 0 5.800z" fill="currentColor" /></>;
    case 'silent': return <><circle {...ring} strokeDasharray="2.600 2" /><path d="M7 4.100a2.900 2.900 0 0 1 0 5.800z" fill="currentColor" /></>;
    case 'done': return <><circle cx="7" cy="7" r="5.600" fill="currentColor" /><path d="m4.500 7.200 1.800 1.700 3.200-3.600" {...mark} /></>;
    case 'blocked': return <><path d="M7 1.300 13 12H1z" fill="currentColor" stroke="currentColor" strokeLinejoin="round" /><path d="M7 5.300v3.200M7 10.200v.1" {...mark} /></>;
    case 'conflicted': return <path d="M7 12.500V8.500M7 8.500 3 4.500M7 8.500l4-4M3 7V4.300h2.700M8.300 4.300H11V7" fill="none" stroke="currentColor" strokeWidth="1.600" strokeLinecap="round" strokeLinejoin="round" />;
    case 'failed': return <><path d="M4.300 1.400h5.400l2.900 2.900v5.400l-2.900 2.900H4.300L1.400 9.700V4.300z" fill="currentColor" /><path d="m5 5 4 4M9 5 5 9" {...mark} /></>;
    case 'waiting': return <><rect x="1.600" y="1.600" width="10.800" height="10.800" rx="3.200" fill="currentColor" stroke="none" /><path d="M5.300 4.600v4.800M8.700 4.600v4.800" {...mark} strokeWidth={1.6} /></>;
    case 'cancelled': return <><circle {...ring} /><path d="M4.400 7h5.200" stroke="currentColor" strokeWidth="1.600" /></>;
    case 'stale': return <><circle {...ring} strokeDasharray="2.600 2" /><path d="M3.800 10.200 10.200 3.800" stroke="currentColor" strokeWidth="1.600" /></>;
    case 'offline': return <circle {...ring} strokeDasharray="2.600 2" />;
  }
}

/** How long ago an agent last showed a sign of life and last did something, as far as that is known. */
export interface Signs { beat: number | undefined; event: number }

/** How an agent is shown. Idle is never the same as waiting for somebody, and alive is not the same as doing something. */
export function agentShape(agent: Agent, signs?: Signs): Shape {
  switch (agent.status) {
    case 'offline': return 'offline';
    case 'idle': return agent.paused ? 'paused' : 'idle';
    case 'blocked': return 'blocked';
    case 'waiting_review': return 'waiting';
    case 'working':
      if ((signs?.beat ?? 0) > STALE_MILLIS) return 'stale';
      return (signs?.event ?? 0) > SILENT_MILLIS ? 'silent' : 'working';
  }
}

/** Without a sign of life for so long, a working agent is shown as stale. */
export const STALE_MILLIS = 90_000;
/** With signs of life but nothing in the log for so long, it is alive but silent. */
export const SILENT_MILLIS = 300_000;

export function taskShape(task: Task): Shape {
  switch (task.state) {
    case 'pending':
      // What only waits for others is not stuck.
      if (task.waitingOn.length > 0) return 'idle';
      return task.holder ?? task.reservedFor ? 'assigned' : 'idle';
    case 'planning': return 'assigned';
    case 'in_progress': return 'working';
    case 'review': return 'waiting';
    case 'paused': return task.waitingFor === 'input' ? 'waiting' : 'blocked';
    case 'failed': return 'failed';
    case 'completed': return 'done';
    case 'skipped':
    case 'cancelled': return 'cancelled';
  }
}

export function taskWord(task: Task): string {
  switch (task.state) {
    case 'pending':
      if (task.waitingOn.length > 0) return `waits for ${task.waitingOn.length}`;
      return task.holder ?? task.reservedFor ? 'assigned' : 'queued';
    case 'planning': return 'planning';
    case 'in_progress': return 'working';
    case 'review': return 'in review';
    case 'paused': return task.waitingFor === 'input' ? 'waits for an answer' : 'blocked';
    case 'failed': return 'failed';
    case 'completed': return 'done';
    case 'skipped': return 'skipped';
    case 'cancelled': return 'cancelled';
  }
}

export function agentWord(shape: Shape): string {
  switch (shape) {
    case 'working': return 'working';
    case 'blocked': return 'blocked';
    case 'waiting': return 'waits for review';
    case 'stale': return 'no sign of life';
    case 'silent': return 'alive but silent';
    case 'paused': return 'paused';
    case 'offline': return 'offline';
    default: return 'idle';
  }
}

export function fileShape(file: FileState): Shape {
  if (file.conflict) return 'conflicted';
  if (file.locked) return 'blocked';
  return file.claim ? 'assigned' : 'idle';
}

export function fileWord(file: FileState): string {
  if (file.conflict) return 'in conflict';
  if (file.locked) return 'locked';
  return file.claim ? 'held' : 'free';
}
