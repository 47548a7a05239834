// The agents: who is alive, on what, for how long, how loaded. Three ages, because each tells something else.

import { useMemo } from 'react';
import { Face } from '../parts/Face';
import { agentWord, Glyph, type Shape } from '../parts/Glyph';
import { Head, type WithMenu } from '../parts/Head';
import { Age } from '../parts/time';
import { at, go, usePlace, withQuery } from '../router';
import { useAddresses } from '../shell/rows';
import { useWorld } from '../store/hooks';
import { shownId } from '../store/mentions';
import { useRoster } from '../store/roster';
import { AgentCard } from './AgentCard';
import { type Column, compare, type Row, SHAPES } from './agentRows';
import { useLoads } from './useLoads';

export default function AgentsView({ chosen, onMenu }: { chosen: string | undefined } & WithMenu) {
  const place = usePlace();
  const loads = useLoads();
  const posts = useRoster();
  const rows = useMemo(() => posts.map((post): Row => ({ ...post, ...loads(post.agent.id) })), [posts, loads]);
  const only = (place.query.get('only') as Shape | null) ?? undefined;
  const column = (place.query.get('sort') as Column | null) ?? 'state';
  const down = place.query.has('down');
  const shown = useMemo(() => rows.filter((row) => only === undefined || row.shape === only).sort(compare(column, down)), [rows, only, column, down]);
  const to = (changes: Record<string, string | undefined>) => go(withQuery(place, changes), 'replace');
  useAddresses(shown, (row) => row.agent.id === chosen, (row) => at('agents', row.agent.id) + location.search);
  const heading = (name: Column, title: string, extra = '') => (
    <th className={extra} aria-sort={column === name ? (down ? 'descending' : 'ascending') : 'none'}>
      <button type="button" onClick={() => to({ sort: name, down: column === name && !down ? '1' : undefined })}>{title}</button>
    </th>
  );
  const row = rows.find((entry) => entry.agent.id === chosen);
  return (
    <>
      <Head title="Agents" note={`${rows.length}`} onMenu={onMenu}><a className="button push" href={at('setup')}>Connect an agent</a></Head>
      <div className="bar">
        {SHAPES.map((shape) => {
          const count = rows.filter((entry) => entry.shape === shape).length;
          return (count > 0 || only === shape) && <button key={shape} type="button" className="chip" aria-pressed={only === shape} onClick={() => to({ only: only === shape ? undefined : shape })}><Glyph shape={shape} small />{agentWord(shape)} {count}</button>;
        })}
      </div>
      <div className="scroll page" tabIndex={0} role="region" aria-label="Agents">
        {rows.length === 0 && <p className="empty">Nobody is here yet. <a className="at" href={at('setup')}>Connect an agent</a></p>}
        {row && <AgentCard row={row} />}
        {rows.length > 0 && (
          <table className="table">
            <thead>
              <tr>
                {heading('state', 'State')}{heading('agent', 'Agent')}{heading('tool', 'Tool', 'wide')}<th className="wide">Task</th>
                {heading('since', 'In state', 'num')}{heading('beat', 'Beat', 'num')}{heading('event', 'Event', 'num')}
                {heading('holding', 'Load', 'num wide')}{heading('claims', 'Files', 'num wide')}{heading('inbox', 'Inbox', 'num wide')}
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

function AgentRow({ row: { agent, shape, beat, claims, task, most, inbox }, chosen }: { row: Row; chosen: boolean }) {
  const { agents } = useWorld();
  return (
    <tr className={chosen ? 'chosen' : ''} aria-current={chosen}>
      <td><span className="state"><Glyph shape={shape} /><span className="wide">{agentWord(shape)}</span></span></td>
      <td><a className="name state" title={agent.id} href={at('agents', agent.id)}><Face id={agent.id} />{shownId(agent.id, agents)}</a></td>
      <td className="wide">{agent.tool}</td>
      <td className="wide">{agent.currentTask ? <a href={at('tasks', agent.currentTask)}>{task}</a> : <span className="quiet">–</span>}</td>
      <td className="num"><Age since={agent.since} /></td>
      <td className="num">{beat === undefined ? '–' : <Age since={beat} />}</td>
      <td className="num"><Age since={agent.lastEvent} /></td>
      <td className="num wide">{agent.holding}{most !== undefined && `/${most}`}</td>
      <td className="num wide">{claims}</td>
      <td className="num wide">{inbox}</td>
    </tr>
  );
}
