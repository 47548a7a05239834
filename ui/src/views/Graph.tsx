// The tasks of a run and what they wait for. For the keyboard and for those who hear it, it is a tree: left goes to what a task
// waits for, right to what waits for it, up and down to what stands beside it.

import { memo, useMemo, useRef } from 'react';
import { folded, kin } from '../layout/folded';
import { COMPACT, layered, type Picture, SIZES, type Sizes, type Spot } from '../layout/layered';
import { GlyphPaths, taskShape, taskWord, toneOf } from '../parts/Glyph';
import { roughly, useMoment } from '../parts/time';
import { at } from '../router';
import { assignee, hasEnded, type Task } from '../store/world';

/** How wide a letter of the title is at most, about. */
const LETTER = 6.6;
/** How often ages in the graph change: seldom where there are many. */
const TICK_MILLIS = 1000;
const SLOW_TICK_MILLIS = 15_000;
const MANY = 200;

interface Props { tasks: readonly Task[]; chosen?: string | undefined; foldDone?: boolean; compact?: boolean; href?: (task: string) => string }

export function Graph({ tasks, chosen, foldDone = false, compact = false, href = (task) => at('tasks', task) }: Props) {
  const svg = useRef<SVGSVGElement>(null);
  const tick = tasks.length > MANY ? SLOW_TICK_MILLIS : TICK_MILLIS;
  const moment = Math.ceil(useMoment() / tick) * tick;
  const { shown } = useMemo(() => folded(tasks, foldDone ? hasEnded : () => false), [tasks, foldDone]);
  const sizes = compact ? COMPACT : SIZES;
  const form = shown.map(({ node }) => `${node.id}<${node.dependsOn.join(',')}`).join(' ');
  const picture = useMemo(() => layered(shown.map(({ node }) => ({ id: node.id, deps: node.dependsOn })), sizes), [form, sizes]);
  const near = useMemo(() => (chosen === undefined ? undefined : kin(shown.map(({ node }) => node), chosen)), [form, chosen]);
  const byId = new Map(shown.map(({ node }) => [node.id, node]));
  if (shown.length === 0) return <p className="quiet">{tasks.length > 0 ? `All ${tasks.length} tasks are done.` : 'No tasks yet.'}</p>;
  const stop = chosen !== undefined && byId.has(chosen) ? chosen : shown[0]?.node.id;
  const keys = (event: React.KeyboardEvent) => {
    const id = (event.target as Element).closest('[data-task]')?.getAttribute('data-task');
    const next = id ? neighbour(picture, id, event.key) : undefined;
    if (!next) return;
    event.preventDefault();
    svg.current?.querySelector<SVGAElement>(`[data-task="${CSS.escape(next)}"]`)?.focus();
  };
  return (
    <div className="graph">
      <svg ref={svg} role="tree" aria-label={`Task graph, ${shown.length} tasks`} onKeyDown={keys} width={picture.width + 2} height={picture.height + 2} viewBox={`-1 -1 ${picture.width + 2} ${picture.height + 2}`}>
        <g aria-hidden="true">
          {picture.edges.map((edge) => <path key={`${edge.from} ${edge.to}`} className={`edge ${heat(byId.get(edge.from), byId.get(edge.to))}${near && !(near.has(edge.from) && near.has(edge.to)) ? ' far' : ''}`} d={edge.path} />)}
        </g>
        {shown.map(({ node, behind }) => {
          const spot = picture.spots.get(node.id);
          return spot && <Box key={node.id} task={node} spot={spot} behind={behind} moment={moment} chosen={node.id === chosen} stop={node.id === stop} sizes={sizes} href={href(node.id)} />;
        })}
      </svg>
    </div>
  );
}

interface BoxProps { task: Task; spot: Spot; behind: number; moment: number; chosen: boolean; stop: boolean; sizes: Sizes; href: string }

const Box = memo(function Box({ task, spot, behind, moment, chosen, stop, sizes, href }: BoxProps) {
  const shape = taskShape(task);
  const classes = [chosen ? 'chosen' : '', task.state === 'pending' && !task.holder ? 'queued' : ''].join(' ');
  const room = Math.floor((sizes.width - 32) / LETTER);
  const detail = told(task, behind, moment);
  return (
    <a href={href} role="treeitem" aria-level={spot.layer + 1} aria-selected={chosen} tabIndex={stop ? 0 : -1} data-task={task.id}>
      <g className={classes} transform={`translate(${spot.x},${spot.y})`}>
        <rect width={sizes.width} height={sizes.height} rx="6"><title>{task.title}</title></rect>
        <svg x="9" y="13" width="14" height="14" viewBox="0 0 14 14" className={`tone-${toneOf(shape)}`} role="img" aria-label={taskWord(task)}><GlyphPaths shape={shape} /></svg>
        <text x="30" y="18">{short(task.title, room)}</text>
        <text className="detail" x="30" y="31">{short(detail, Math.floor(room * 1.25))}</text>
      </g>
    </a>
  );
});

/** The one thing to know beside the title; the shape tells the rest. */
function told(task: Task, behind: number, moment: number): string {
  const who = assignee(task);
  if (behind > 0) return `${behind + 1} done`;
  switch (task.state) {
    case 'review': return 'waits for you';
    case 'failed': return task.attempt > 1 ? `failed, attempt ${task.attempt}` : 'failed';
    case 'in_progress':
    case 'paused':
    case 'planning': return `${who ?? 'nobody'}, ${roughly(moment - task.since)}`;
    default: return who ?? taskWord(task);
  }
}

function short(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

function heat(from: Task | undefined, to: Task | undefined): string {
  if (from?.state === 'failed' || from?.state === 'paused') return 'bad';
  return from?.state === 'in_progress' || to?.state === 'in_progress' ? 'hot' : '';
}

/** Where an arrow leads. */
function neighbour({ spots, edges }: Picture, id: string, key: string): string | undefined {
  const here = spots.get(id);
  if (!here) return undefined;
  switch (key) {
    case 'ArrowLeft': return edges.find((edge) => edge.to === id)?.from;
    case 'ArrowRight': return edges.find((edge) => edge.from === id)?.to;
    case 'ArrowUp':
    case 'ArrowDown': {
      const row = here.row + (key === 'ArrowDown' ? 1 : -1);
      return [...spots.values()].find((spot) => spot.layer === here.layer && spot.row === row)?.id;
    }
    default: return undefined;
  }
}
