// The teams that runners run, and those that they ran.

import type { Wire } from '../api/client';
import { AskWhy } from '../parts/AskWhy';
import { Glyph, type Shape } from '../parts/Glyph';
import { Age } from '../parts/time';
import { at } from '../router';
import * as actions from '../store/actions';
import { useMayAct } from '../store/hooks';
import { useTeams } from './useTeams';

export function TeamList() {
  const teams = useTeams();
  const mayAct = useMayAct();
  if (teams.length === 0) return null;
  return (
    <>
      <h2 className="subtitle">Teams</h2>
      <table className="table">
        <thead><tr><th>Team</th><th>State</th><th className="wide">File</th><th className="num wide">Turns</th><th className="num wide">Cost</th><th className="num">Since</th><th /></tr></thead>
        <tbody>
          {teams.map((team) => (
            <tr key={`${team.id} ${team.generation}`}>
              <td><a className="name" href={at('c', team.instance)}>{team.id}</a> <span className="quiet">{team.workflow}</span></td>
              <td><span className="state"><Glyph shape={shapeOf(team)} />{wordOf(team)}</span></td>
              <td className="wide mono" title={team.file ?? undefined}>{team.file?.split('/').at(-1)}</td>
              <td className="num wide">{team.turns}</td>
              <td className="num wide">{team.cost_usd == null ? '–' : `$${team.cost_usd.toFixed(2)}`}</td>
              <td className="num"><Age since={team.ended_at ?? team.started_at} /></td>
              <td>{team.lost && <button type="button" className="button" disabled={!mayAct} onClick={() => void actions.forceEndTeam(team.id)}>End it</button>}
                {team.live && !team.lost && !team.stop_requested && <AskWhy label="Stop" ask="Why?" disabled={!mayAct} onDo={(why) => void actions.stopTeam(team.id, why)} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function shapeOf(team: Wire['TeamView']): Shape {
  if (team.lost) return 'stale';
  if (team.live) return 'working';
  return team.outcome === 'failed' ? 'failed' : team.outcome === 'completed' ? 'done' : 'cancelled';
}

function wordOf(team: Wire['TeamView']): string {
  if (!team.live) return team.outcome ?? 'over';
  if (team.lost) return 'without its runner';
  return team.stop_requested ? 'is to stop' : 'runs';
}
