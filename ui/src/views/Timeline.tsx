// Who worked on what and when, one row for each agent, with idle stretches folded.

import { useMemo } from 'react';
import { clock, clockSeconds, full, lasted, useMoment } from '../parts/time';
import { scale, ticks } from '../layout/timeline';
import { at } from '../router';
import type { Wire } from '../api/client';

export type RunTask = Wire['TaskInfo'];

interface Bar { from: number; to: number; going: boolean; task: RunTask; tone: string; attempt: number }

interface Props { tasks: readonly RunTask[]; attempt?: number | undefined; chosen?: string | undefined; href?: (task: string) => string }

export function Timeline({ tasks, attempt, chosen, href = (task) => at('tasks', task) }: Props) {
  const now = useMoment();
  const second = Math.floor(now / 1000);
  const rows = useMemo(() => byAgent(flat(tasks), attempt, now), [tasks, attempt, second]);
  const line = useMemo(() => scale([...rows.values()].flat(), now), [rows, second]);
  if (rows.size === 0) return <p className="quiet">Nobody has worked on it yet.</p>;
  const percent = (place: number) => `${(place * 100).toFixed(2)}%`;
  // Where there is room to say how long it was, and it was long enough to say it.
  const folds = line.folds.filter((fold) => fold.at < 0.9 && fold.millis >= 60_000);
  const all = [...rows.values()].flat();
  const last = Math.max(...all.map((bar) => bar.to));
  const end = all.some((bar) => bar.going);
  return (
    <div className="gantt">
      {[...rows].map(([agent, bars]) => (
        <Row key={agent} agent={agent}>
          {bars.map((bar) => {
            const left = line.at(bar.from);
            const label = `${bar.task.title}, ${lasted(bar.to - bar.from)}${bar.attempt > 1 ? `, attempt ${bar.attempt}` : ''}`;
            return (
              <a
                key={`${bar.task.task_id} ${bar.from}`} className={`stretch fill-${bar.tone}${bar.task.task_id === chosen ? ' chosen' : ''}`} href={href(bar.task.task_id)} title={`${label}\n${full(bar.from)}`}
                aria-label={label} style={{ left: percent(left), width: percent(Math.max(0, line.at(bar.to) - left)) }}
              />
            );
          })}
          {line.folds.map((fold) => <i key={fold.at} className="gap" style={{ left: percent(fold.at) }} title={`${lasted(fold.millis)} without work`} />)}
          {end && <i className="now" style={{ left: percent(Math.min(0.998, line.at(now))) }} />}
        </Row>
      ))}
      <span />
      <div className="axis num">
        {ticks(line.from, last).filter((time) => line.at(time) < (end ? 0.84 : 0.94) && folds.every((fold) => Math.abs(fold.at - line.at(time)) > 0.1)).map((time) => (
          <span key={time} style={{ left: percent(line.at(time)) }}>{last - line.from < 180_000 ? clockSeconds(time) : clock(time)}</span>
        ))}
        {folds.map((fold) => <i key={fold.at} className="folded" style={{ left: percent(fold.at) }}>{lasted(fold.millis)}</i>)}
        {end && <b className="now-word">now</b>}
      </div>
    </div>
  );
}

function Row({ agent, children }: { agent: string; children: React.ReactNode }) {
  return <><span className="who cut" title={agent}>{agent}</span><div className="track">{children}</div></>;
}

export function flat(tasks: readonly RunTask[]): RunTask[] {
  return tasks.flatMap((task) => [task, ...flat(task.children)]);
}

function byAgent(tasks: readonly RunTask[], attempt: number | undefined, now: number): Map<string, Bar[]> {
  const rows = new Map<string, Bar[]>();
  for (const task of tasks) {
    for (const entry of task.attempts) {
      if (attempt !== undefined && entry.attempt !== attempt) continue;
      // Whoever never took it up did not work on it.
      if (entry.outcome === 'not_accepted') continue;
      const agent = entry.agent.replace(/^agent:/, '');
      const [from, ended] = [Date.parse(entry.started_at), entry.ended_at == null ? Number.POSITIVE_INFINITY : Date.parse(entry.ended_at)];
      if (from > now) continue;
      const going = ended > now;
      const to = Math.min(ended, now);
      rows.set(agent, [...(rows.get(agent) ?? []), { from, to, going, task, tone: toneOf(task, entry.outcome ?? undefined, going), attempt: entry.attempt }]);
    }
  }
  return rows;
}

function toneOf(task: RunTask, outcome: string | undefined, going: boolean): string {
  if (going) return task.state === 'paused' ? 'block' : task.state === 'review' ? 'wait' : 'run';
  if (outcome === 'completed') return 'done';
  return outcome === 'failed' || outcome === 'timed_out' ? 'fail' : 'idle';
}
