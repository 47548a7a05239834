// The tasks of a run and what they wait for. Each task is a link, so that the keyboard walks through it as through a list.

import { useMemo } from 'react';
import { GlyphPaths, taskShape, taskWord, toneOf } from '../parts/Glyph';
import { COMPACT, layered, SIZES, type Sizes } from '../layout/layered';
import { at } from '../router';
import { assignee, type Task } from '../store/world';

/** How wide a letter of the title is at most, about. */
const LETTER = 6.6;

export function Graph({ tasks, chosen, foldDone = false, compact = false }: { tasks: readonly Task[]; chosen?: string | undefined; foldDone?: boolean; compact?: boolean }) {
  const { shown, folded } = useMemo(() => (foldDone ? withoutDone(tasks) : { shown: tasks, folded: 0 }), [tasks, foldDone]);
  const sizes = compact ? COMPACT : SIZES;
  const shape = shown.map((task) => `${task.id}<${task.dependsOn.join(',')}`).join(' ');
  const picture = useMemo(() => layered(shown.map((task) => ({ id: task.id, deps: task.dependsOn })), sizes), [shape, sizes]);
  const byId = new Map(shown.map((task) => [task.id, task]));
  if (shown.length === 0) return <p className="quiet">{folded > 0 ? `All ${folded} tasks are done.` : 'No tasks yet.'}</p>;
  return (
    <div className="graph" role="group" aria-label={`Task graph, ${shown.length} tasks`} tabIndex={0}>
      <svg width={picture.width + 2} height={picture.height + 2} viewBox={`-1 -1 ${picture.width + 2} ${picture.height + 2}`}>
        {picture.edges.map((edge) => <path key={`${edge.from} ${edge.to}`} className={`edge ${heat(byId.get(edge.from), byId.get(edge.to))}`} d={edge.path} />)}
        {shown.map((task) => {
          const spot = picture.spots.get(task.id);
          return spot && <Box key={task.id} task={task} x={spot.x} y={spot.y} chosen={task.id === chosen} sizes={sizes} />;
        })}
      </svg>
    </div>
  );
}

function Box({ task, x, y, chosen, sizes }: { task: Task; x: number; y: number; chosen: boolean; sizes: Sizes }) {
  const shape = taskShape(task);
  const classes = [chosen ? 'chosen' : '', task.state === 'pending' && !task.holder ? 'queued' : ''].join(' ');
  const who = assignee(task);
  const room = Math.floor((sizes.width - 32) / LETTER);
  return (
    <a href={at('tasks', task.id)}>
      <g className={classes} transform={`translate(${x},${y})`}>
        <title>{task.title}</title>
        <rect width={sizes.width} height={sizes.height} rx="6" />
        <svg x="9" y="13" width="14" height="14" viewBox="0 0 14 14" className={`tone-${toneOf(shape)}`} aria-hidden="true"><GlyphPaths shape={shape} /></svg>
        <text x="30" y="18">{short(task.title, room)}</text>
        <text className="detail" x="30" y="31">{short(told(who, taskWord(task), sizes), Math.floor(room * 1.15))}</text>
      </g>
    </a>
  );
}

/** Who and how; where there is little room, the shape tells how. */
function told(who: string | undefined, word: string, sizes: Sizes): string {
  if (who === undefined) return word;
  return sizes === COMPACT ? who : `${who}, ${word}`;
}

function short(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

function heat(from: Task | undefined, to: Task | undefined): string {
  if (from?.state === 'failed' || from?.state === 'paused') return 'bad';
  return from?.state === 'in_progress' || to?.state === 'in_progress' ? 'hot' : '';
}

/** Leaves out what is done and nothing open waits on any more. */
function withoutDone(tasks: readonly Task[]): { shown: Task[]; folded: number } {
  const ended = (task: Task) => task.state === 'completed' || task.state === 'skipped' || task.state === 'cancelled';
  const near = new Set(tasks.filter((task) => !ended(task)).flatMap((task) => task.dependsOn));
  const shown = tasks.filter((task) => !ended(task) || near.has(task.id));
  return { shown, folded: tasks.length - shown.length };
}
