// The agents: who is alive, on what, for how long, how loaded. Three ages, because each tells something else.

import { useEffect, useMemo, useState } from 'react';
import { get, type Wire } from '../api/client';
import { Face } from '../parts/Face';
import { agentShape, agentWord, Glyph, type Shape } from '../parts/Glyph';
import { Head, type WithMenu } from '../parts/Head';
import { Age, lasted, useNow } from '../parts/time';
import { at, go } from '../router';
import { useDeeds } from '../shell/keys';
import * as actions from '../store/actions';
import { useMayAct, useWorld } from '../store/hooks';
import { useStore } from '../store/store';
import type { Agent } from '../store/world';

type Column = 'state' | 'agent' | 'tool' | 'since' | 'beat' | 'event' | 'holding' | 'claims';
interface Row { agent: Agent; shape: Shape; beat: number | undefined; claims: number; task: string | undefined }

const SHAPES: Shape[] = ['working', 'waiting', 'blocked', 'stale', 'idle', 'offline'];

export default function AgentsView({ chosen, onMenu }: { chosen: string | undefined } & WithMenu) {
  const rows = useRows();
  const [only, setOnly] = useState<Shape>();
  const [sort, setSort] = useState<{ column: Column; down: boolean }>({ column: 'state', down: false });
  const shown = useMemo(() => rows.filter((row) => only === undefined || row.shape === only).sort(by(sort.column, sort.down)), [rows, only, sort]);
  useDeeds((deed) => {
    if (deed !== 'next' && deed !== 'previous') return false;
    const index = shown.findIndex((row) => row.agent.id === chosen) + (deed === 'next' ? 1 : -1);
    const next = shown[Math.max(0, Math.min(shown.length - 1, index))];
    if (next) go(at('agents', next.agent.id), 'replace');
    return true;
  });
  const heading = (column: Column, title: string, extra = '') => (
    <th className={extra} aria-sort={sort.column === column ? (sort.down ? 'descending' : 'ascending') : 'none'}>
      <button type="button" onClick={() => setSort({ column, down: sort.column === column && !sort.down })}>{title}</button>
    </th>
  );
  const row = rows.find((entry) => entry.agent.id === chosen);
  return (
    <>
      <Head title="Agents" note={`${rows.length}`} onMenu={onMenu}><a className="button push" href={at('setup')}>Connect an agent</a></Head>
      <div className="bar">
        {SHAPES.map((shape) => {
          const count = rows.filter((entry) => entry.shape === shape).length;
          return count > 0 && <button key={shape} type="button" className="chip" aria-pressed={only === shape} onClick={() => setOnly(only === shape ? undefined : shape)}><Glyph shape={shape} small />{agentWord(shape)} {count}</button>;
        })}
      </div>
      <div className="scroll page" tabIndex={0} role="region" aria-label="Agents">
        {rows.length === 0 && <p className="empty">Nobody is here yet. <a className="at" href={at('setup')}>Connect an agent</a></p>}
        {row && <Chosen row={row} />}
        {rows.length > 0 && (
          <table className="table">
            <thead>
              <tr>
                {heading('state', 'State')}{heading('agent', 'Agent')}{heading('tool', 'Tool', 'wide')}<th>Task</th>
                {heading('since', 'In state', 'num')}{heading('beat', 'Beat', 'num')}{heading('event', 'Last event', 'num wide')}
                {heading('holding', 'Tasks', 'num wide')}{heading('claims', 'Files', 'num wide')}
              </tr>
            </thead>
            <tbody>{shown.map((entry) => <AgentRow key={entry.agent.id} row={entry} chosen={entry.agent.id === chosen} />)}</tbody>
          </table>
        )}
      </div>
      <div />
    </>
  );
}

function useRows(): Row[] {
  const world = useWorld();
  const beats = useStore((state) => state.beats);
  const now = useNow();
  const claims = useMemo(() => {
    const found = new Map<string, number>();
    for (const file of world.files.values()) if (file.claim) found.set(file.claim.holder, (found.get(file.claim.holder) ?? 0) + 1);
    return found;
  }, [world.files]);
  return [...world.agents.values()].map((agent) => {
    const beat = beats.get(agent.id);
    return {
      agent, beat, claims: claims.get(agent.id) ?? 0,
      shape: agentShape(agent, beat === undefined ? undefined : now - beat),
      task: agent.currentTask === undefined ? undefined : world.tasks.get(agent.currentTask)?.title,
    };
  });
}

function by(column: Column, down: boolean): (a: Row, b: Row) => number {
  const value = (row: Row): number | string => {
    switch (column) {
      case 'state': return SHAPES.indexOf(row.shape);
      case 'agent': return row.agent.id;
      case 'tool': return row.agent.tool;
      case 'since': return row.agent.since;
      case 'beat': return row.beat ?? 0;
      case 'event': return row.agent.lastEvent;
      case 'holding': return row.agent.holding;
      case 'claims': return row.claims;
    }
  };
  return (a, b) => {
    const [x, y] = [value(a), value(b)];
    const order = x < y ? -1 : x > y ? 1 : a.agent.id < b.agent.id ? -1 : 1;
    return down ? -order : order;
  };
}

function AgentRow({ row: { agent, shape, beat, claims, task }, chosen }: { row: Row; chosen: boolean }) {
  const now = useNow();
  const silent = shape === 'working' && now - agent.lastEvent > 5 * 60_000;
  return (
    <tr className={chosen ? 'chosen' : ''}>
      <td><span className="state"><Glyph shape={shape} />{agentWord(shape)}{silent && ', silent'}</span></td>
      <td><a className="name state" href={at('agents', agent.id)}><Face id={agent.id} />{agent.id}</a></td>
      <td className="wide">{agent.tool}</td>
      <td>{agent.currentTask ? <a href={at('tasks', agent.currentTask)}>{task ?? agent.currentTask}</a> : <span className="quiet">–</span>}</td>
      <td className="num"><Age since={agent.since} /></td>
      <td className="num">{beat === undefined ? '–' : lasted(now - beat)}</td>
      <td className="num wide"><Age since={agent.lastEvent} /></td>
      <td className="num wide">{agent.holding}</td>
      <td className="num wide">{claims}</td>
    </tr>
  );
}

/** The team that a runner runs an agent in, if one does right now. */
function useTeam(agent: string): { team: Wire['TeamView']; member: Wire['TeamAgent'] } | undefined {
  const newest = useStore((state) => state.events.findLast((event) => /^(team|turn)\./.test(event.kind))?.seq ?? 0);
  const [teams, setTeams] = useState<Wire['TeamView'][]>([]);
  useEffect(() => {
    get<Wire['Teams']>('/teams?live=true').then((found) => setTeams(found.teams)).catch(() => setTeams([]));
  }, [newest]);
  for (const team of teams) {
    const member = team.agents.find((entry) => entry.id === agent);
    if (member) return { team, member };
  }
  return undefined;
}

function Chosen({ row: { agent, shape } }: { row: Row }) {
  const run = useTeam(agent.id);
  const world = useWorld();
  const mayAct = useMayAct();
  const files = [...world.files.values()].filter((file) => file.claim?.holder === agent.id);
  return (
    <section className="note-box" aria-label={agent.id}>
      <h2 className="title"><Face id={agent.id} size="large" />{agent.id}<span className="state quiet"><Glyph shape={shape} />{agentWord(shape)}</span></h2>
      <dl className="facts">
        <dt>Tool</dt><dd>{agent.tool}, {agent.role}{world.lead === agent.id && ', leads'}</dd>
        {run && <><dt>Run by</dt><dd>{run.member.backend}{run.member.model && `, ${run.member.model}`}: {run.member.state}, {run.member.turns} turns, {(run.member.input_tokens + run.member.output_tokens).toLocaleString()} tokens{run.member.cost_usd != null && `, $${run.member.cost_usd.toFixed(2)}`}</dd></>}
        <dt>Can</dt><dd>{agent.capabilities.join(', ')}</dd>
        {files.length > 0 && <><dt>Holds</dt><dd>{files.map((file) => <div key={file.path}><a className="mono" href={at('files', ...file.path.split('/'))}>{file.path}</a></div>)}</dd></>}
      </dl>
      <div className="deeds">
        <a className="button" href={`${at('stream')}?agent=${encodeURIComponent(agent.id)}`}>Events</a>
        <a className="button" href={`${at('tasks')}?agent=${encodeURIComponent(agent.id)}`}>Tasks</a>
        {run && <button type="button" className="button" disabled={!mayAct || run.member.stop_asked} onClick={() => void actions.stopAgent(run.team.id, run.member.name)}>{run.member.stop_asked ? 'Is to stop' : 'Stop'}</button>}
        <button type="button" className="button" disabled={!mayAct} onClick={() => void actions.dismissAgent(agent.id)}>Dismiss from the team</button>
      </div>
    </section>
  );
}
