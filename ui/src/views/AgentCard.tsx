// One agent: what it is, its three ages, what it holds, and what can be done with it.

import { Face } from '../parts/Face';
import { agentWord, Glyph } from '../parts/Glyph';
import { Offers } from '../parts/Offers';
import { Age } from '../parts/time';
import { at } from '../router';
import { useMayAct, useWorld } from '../store/hooks';
import { instanceOf } from '../store/instance';
import { mentionOf, shownId } from '../store/mentions';
import { ofAgent } from '../store/offers';
import type { Row } from './agentRows';
import { useTeamOf } from './useTeams';

export function AgentCard({ row: { agent, shape, beat, task, inbox } }: { row: Row }) {
  const run = useTeamOf(agent.id);
  const world = useWorld();
  const mayAct = useMayAct();
  const files = [...world.files.values()].filter((file) => file.claim?.holder === agent.id);
  return (
    <section className="note-box" aria-label={agent.id}>
      <h2 className="title"><Face id={agent.id} size="large" /><span title={agent.id}>{shownId(agent.id, world.agents)}</span><span className="state quiet"><Glyph shape={shape} />{agentWord(shape)}</span></h2>
      <dl className="facts">
        <dt>Ages</dt><dd><Age since={agent.since} /> in this state, {beat === undefined ? 'no sign of life known' : <>sign of life <Age since={beat} /> ago</>}, last event <Age since={agent.lastEvent} /> ago</dd>
        {agent.paused && <><dt>Paused</dt><dd>by {agent.paused.by.replace(/^person:/, '')}{agent.paused.reason && `: ${agent.paused.reason}`}, <Age since={agent.paused.since} />. It finishes what it has and gets nothing new.</dd></>}
        {agent.currentTask && <><dt>Task</dt><dd><a className="link" href={at('tasks', agent.currentTask)}>{task}</a></dd></>}
        <dt>Tool</dt><dd>{agent.tool}, {agent.role}{world.lead === agent.id && ', leads'}</dd>
        {run && <><dt>Run by</dt><dd>{run.team.workflow}: {run.member.backend}{run.member.model && `, ${run.member.model}`}, {run.member.state}, {run.member.turns} turns, {(run.member.input_tokens + run.member.output_tokens).toLocaleString()} tokens{run.member.cost_usd != null && `, $${run.member.cost_usd.toFixed(2)}`}</dd></>}
        {agent.capabilities.length > 0 && <><dt>Can</dt><dd>{agent.capabilities.join(', ')}</dd></>}
        {inbox > 0 && <><dt>Inbox</dt><dd>{inbox} not taken note of</dd></>}
        {files.length > 0 && <><dt>Holds</dt><dd>{files.map((file) => <div key={file.path}><a className="mono link" href={at('files', ...file.path.split('/').filter(Boolean))}>{file.path}</a></div>)}</dd></>}
      </dl>
      <div className="deeds">
        <a className="button main-action" href={`${at('c', instanceOf(agent.id))}?say=${encodeURIComponent(`@${mentionOf(agent.id, instanceOf(agent.id), world.agents)} `)}`}>Write to it</a>
        <Offers offers={ofAgent(agent, world, run)} disabled={!mayAct} />
        <a className="button" href={`${at('stream')}?agent=${encodeURIComponent(agent.id)}`}>Events</a>
        <a className="button" href={`${at('tasks')}?agent=${encodeURIComponent(agent.id)}`}>Tasks</a>
      </div>
    </section>
  );
}
