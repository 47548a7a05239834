// The rail: where one can go, and who is here. The roster is always there, because "who does what" is the first question.

import { useMemo } from 'react';
import { Face } from '../parts/Face';
import { agentWord, Glyph, toneOf, type Shape } from '../parts/Glyph';
import { Icon, type IconName } from '../parts/Icon';
import { lasted, useMoment } from '../parts/time';
import { at, type Place } from '../router';
import { openTasks } from '../store/attention';
import { useWorld } from '../store/hooks';
import { useMatters } from '../store/matters';
import { shownId } from '../store/mentions';
import { type Post, useRoster } from '../store/roster';
import { useStore } from '../store/store';
import { bare, channelTitle, isFor, threadOf } from '../store/talk';
import type { World } from '../store/world';
import { useSeen } from './seen';
import { toggleTheme } from './theme';

const MOST_AGENTS = 12;

export function Rail({ place, onSearch }: { place: Place; onSearch: () => void }) {
  const world = useWorld();
  const project = useStore((state) => state.session.project);
  return (
    <nav className="rail" aria-label="Workspace">
      <div className="workspace">
        <a className="logo" href={at()} aria-label="Home"><Icon name="runs" /></a>
        <span className="cut"><b className="cut">{project || 'Rookery'}</b><Link /></span>
      </div>
      <button type="button" className="jump" onClick={onSearch}>
        <Icon name="search" />Search or jump to<kbd className="push">Ctrl K</kbd>
      </button>
      <div className="rail-scroll">
        <Views place={place} world={world} />
        <Channels place={place} />
        <Roster world={world} place={place} />
      </div>
      <Self />
    </nav>
  );
}

function Link() {
  const link = useStore((state) => state.link);
  const rate = useStore((state) => state.perSecond);
  const words = { connecting: 'Connecting', live: rate > 0 ? `Live, ${rate} events/s` : 'Live', behind: 'Catching up', away: 'Not connected' }[link.is];
  const tone = { connecting: ' behind', live: '', behind: ' behind', away: ' away' }[link.is];
  return <small><i className={`dot${tone}`} />{words}</small>;
}

function Views({ place, world }: { place: Place; world: World }) {
  const matters = useMatters();
  const conflicts = useMemo(() => [...world.files.values()].filter((file) => file.conflict).length, [world.files]);
  const claimed = useMemo(() => [...world.files.values()].filter((file) => file.claim).length, [world.files]);
  const pending = useMemo(() => [...world.handoffs.values()].filter((handoff) => handoff.status === 'pending').length, [world.handoffs]);
  const tasks = useMemo(() => openTasks(world.tasks), [world.tasks]);
  const runs = useMemo(() => new Set([...world.tasks.values()].map((task) => task.run)).size, [world.tasks]);
  const item = (name: string, icon: IconName, title: string, count?: React.ReactNode) => (
    <li><a href={at(name)} {...current(place, name)}><Icon name={icon} /><span className="cut">{title}</span>{count}</a></li>
  );
  const number = (value: number) => (value > 0 ? <span className="count num">{value}</span> : null);
  return (
    <ul className="nav">
      <li>
        <a href={at('attention')} {...current(place, 'attention')} className={matters.length > 0 ? 'unread' : ''}>
          <Icon name="bell" />Attention
          {matters.length > 0 && <span className="badge" aria-label={`${matters.length} need you`}>{matters.length}</span>}
        </a>
      </li>
      {item('stream', 'stream', 'Stream')}
      {item('runs', 'runs', 'Runs', number(runs))}
      {item('tasks', 'tasks', 'Tasks', number(tasks))}
      {item('agents', 'agents', 'Agents', number(world.agents.size))}
      {item('files', 'files', 'Files and claims', conflicts > 0 ? <span className="count warn">{conflicts} conflict{conflicts > 1 ? 's' : ''}</span> : number(claimed))}
      {item('handoffs', 'handoff', 'Handoffs', number(pending))}
      {item('documents', 'document', 'Documents')}
      {item('artifacts', 'artifact', 'Artifacts')}
    </ul>
  );
}

function current(place: Place, name: string): { 'aria-current'?: 'page' } {
  return place.parts[0] === name ? { 'aria-current': 'page' } : {};
}

function Channels({ place }: { place: Place }) {
  const channels = useStore((state) => state.channels);
  const listed = useMemo(
    () => [...channels.values()].sort((a, b) => Number(b.name === 'default') - Number(a.name === 'default') || b.lastAt - a.lastAt).slice(0, 20),
    [channels],
  );
  return (
    <>
      <h2>Channels</h2>
      <ul className="nav">
        {listed.map(({ name }) => <Channel key={name} name={name} current={place.parts[0] === 'c' && place.parts[1] === name} />)}
      </ul>
    </>
  );
}

function Channel({ name, current: here }: { name: string; current: boolean }) {
  const log = useStore((state) => state.log);
  const me = useStore((state) => state.session.person);
  const entries = useStore((state) => state.talk.get(threadOf(name)));
  const seen = useSeen(log, name);
  const fresh = (entries ?? []).filter((entry) => seen !== undefined && entry.seq > seen && entry.from !== `person:${me}`);
  const mine = me === undefined ? 0 : fresh.filter((entry) => isFor(entry, me)).length;
  return (
    <li>
      <a href={at('c', name)} className={fresh.length > 0 ? 'unread' : ''} {...(here ? { 'aria-current': 'page' as const } : {})}>
        <span className="hash">#</span><span className="cut">{channelTitle(name)}</span>
        {mine > 0
          ? <span className="badge mine" aria-label={`${mine} mention you`}>{mine}</span>
          : fresh.length > 0 && <span className="count num" aria-label={`${fresh.length} new`}>{fresh.length}</span>}
      </a>
    </li>
  );
}

const ORDER: Record<Shape, number> = {
  stale: 0, blocked: 1, silent: 1, waiting: 2, working: 3, assigned: 4, conflicted: 4, failed: 4, paused: 4, idle: 5, done: 5, cancelled: 5, offline: 6,
};

function Roster({ world, place }: { world: World; place: Place }) {
  const posts = useRoster();
  const now = useMoment();
  const rows = useMemo(
    () => [...posts].sort((a, b) => Number(b.agent.id === world.lead) - Number(a.agent.id === world.lead) || ORDER[a.shape] - ORDER[b.shape] || a.agent.joinedAt - b.agent.joinedAt),
    [posts, world.lead],
  );
  const working = rows.filter((row) => row.shape === 'working').length;
  return (
    <>
      <h2>Agents <span>{working > 0 ? `${working} working` : ''}</span></h2>
      <ul className="nav">
        {rows.slice(0, MOST_AGENTS).map((post) => (
          <li key={post.agent.id}>
            <a href={at('agents', post.agent.id)} title={told(post, now)} {...(place.parts[0] === 'agents' && place.parts[1] === post.agent.id ? { 'aria-current': 'page' as const } : {})}>
              <Glyph shape={post.shape} label={agentWord(post.shape)} />
              <span className="cut who">{shownId(post.agent.id, world.agents)}</span>
              <span className={noteClass(post.shape)}>{noted(post, world.lead, now)}</span>
            </a>
          </li>
        ))}
        {rows.length > MOST_AGENTS && <li><a href={at('agents')}><span className="hash" />{rows.length - MOST_AGENTS} more</a></li>}
        {rows.length === 0 && <li><a href={at('setup')}><span className="hash">+</span>Connect an agent</a></li>}
      </ul>
    </>
  );
}

/** All three ages, for whoever rests on the row. */
function told({ agent, shape, beat }: Post, now: number): string {
  const life = beat === undefined ? '' : `, last sign of life ${lasted(now - beat)} ago`;
  return `${agent.id}: ${agentWord(shape)} for ${lasted(now - agent.since)}${life}, last event ${lasted(now - agent.lastEvent)} ago`;
}

function noteClass(shape: Shape): string {
  const tone = toneOf(shape);
  return tone === 'fail' ? 'note bad' : tone === 'block' ? 'note warn' : 'note';
}

/** The one thing to know about an agent: what keeps it, or what it does, and for how long. */
function noted({ agent, shape, beat, task }: Post, lead: string | undefined, now: number): string {
  const since = lasted(now - agent.since);
  switch (shape) {
    case 'blocked': return `Blocked, ${since}`;
    case 'waiting': return `Needs review, ${since}`;
    case 'stale': return `No beat ${lasted(now - (beat ?? agent.since))}`;
    case 'silent': return `Silent, ${lasted(now - agent.lastEvent)}`;
    case 'offline': return 'Offline';
    case 'paused': return `Paused, ${lasted(now - (agent.paused?.since ?? agent.since))}`;
    case 'working': return agent.paused ? 'Finishes, then rests' : `${task ?? 'Working'}, ${since}`;
    default: return agent.id === lead ? 'lead' : 'Idle';
  }
}

function Self() {
  const person = useStore((state) => state.session.person);
  const ended = useStore((state) => state.session.ended);
  return (
    <div className="self">
      <Face id={person === undefined ? '?' : `person:${person}`} />
      <a href={at('sessions')} title="Browsers that are signed in">
        <b className="cut">{person !== undefined ? bare(person) : ended ? 'Signed out' : 'Looking on'}</b>
        <small className="cut">{person === undefined ? 'rookery open signs you in' : 'Operator, sees everything'}</small>
      </a>
      <button type="button" className="push" onClick={toggleTheme} aria-label="Light or dark"><Icon name="theme" /></button>
    </div>
  );
}
