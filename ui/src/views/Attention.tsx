// What needs the person: one list, ordered by what it holds up. Each row says who, why, since when, what waits, and has the deed
// beside it.

import { type ReactNode, useState } from 'react';
import { ChooseAgent } from '../parts/Choose';
import { Glyph } from '../parts/Glyph';
import { Head, type WithMenu } from '../parts/Head';
import { Age } from '../parts/time';
import { at, go } from '../router';
import { useDeeds } from '../shell/keys';
import * as actions from '../store/actions';
import type { Kind, Matter } from '../store/attention';
import { useMatters, useMayAct, useWorld } from '../store/hooks';
import { useStore } from '../store/store';
import { assignee, type World } from '../store/world';
import { SignInNote } from './SignInNote';

const KINDS: Record<Kind, string> = {
  review: 'Reviews', answer: 'Questions', blocked: 'Blocked', failed: 'Failed', unrouted: 'Nobody fits', offline: 'Offline',
  conflict: 'Conflicts', handoff: 'Handoffs', mention: 'Mentions', held: 'Held messages',
};

export function AttentionView({ onMenu }: WithMenu) {
  const all = useMatters();
  const world = useWorld();
  const mayAct = useMayAct();
  const [kind, setKind] = useState<Kind | undefined>();
  const [chosen, setChosen] = useState(0);
  const matters = kind === undefined ? all : all.filter((matter) => matter.kind === kind);
  const kinds = [...new Set(all.map((matter) => matter.kind))];
  const matter = matters[Math.min(chosen, matters.length - 1)];
  useDeeds((deed) => {
    if (deed === 'next' || deed === 'previous') {
      setChosen((before) => Math.max(0, Math.min(matters.length - 1, before + (deed === 'next' ? 1 : -1))));
      return true;
    }
    if (!matter) return false;
    if (deed === 'open') go(placeOf(matter));
    else if (deed === 'acknowledge' && mayAct) void actions.acknowledge(matter.key);
    else if (deed === 'approve' && mayAct && matter.kind === 'review' && matter.task) approve(world, matter.task);
    else return false;
    return true;
  });
  return (
    <>
      <Head title="Attention" onMenu={onMenu} note={all.length === 0 ? 'Nothing needs you' : `${all.length} need${all.length === 1 ? 's' : ''} you`} />
      <div className="bar">
        {kinds.length > 1 && (
          <>
            <button type="button" className="chip" aria-pressed={kind === undefined} onClick={() => setKind(undefined)}>All kinds</button>
            {kinds.map((name) => (
              <button key={name} type="button" className="chip" aria-pressed={kind === name} onClick={() => setKind(name)}>{KINDS[name]}</button>
            ))}
          </>
        )}
      </div>
      <div className="scroll">
        <ul aria-label="What needs you">
          {matters.map((entry) => (
            <li key={entry.key}>
              <Row matter={entry} chosen={entry === matter} world={world} mayAct={mayAct} />
            </li>
          ))}
        </ul>
        <Rest count={matters.length} />
      </div>
      {!mayAct && matters.length > 0 ? <SignInNote /> : <div />}
    </>
  );
}

function Row({ matter, chosen, world, mayAct }: { matter: Matter; chosen: boolean; world: World; mayAct: boolean }) {
  return (
    <article className={chosen ? 'matter chosen' : 'matter'}>
      <Glyph shape={matter.shape} label={KINDS[matter.kind]} />
      <a className="what cut" href={placeOf(matter)}><b>{matter.what}</b></a>
      <span className="why cut">{matter.behind > 0 ? `${matter.behind} task${matter.behind === 1 ? '' : 's'} wait${matter.behind === 1 ? 's' : ''} · ` : ''}{matter.why}</span>
      <span className="age"><Age since={matter.since} /></span>
      <span className="deeds">
        <Deeds matter={matter} world={world} disabled={!mayAct} />
        <button type="button" className="button plain" disabled={!mayAct} onClick={() => void actions.acknowledge(matter.key)}>Acknowledge</button>
      </span>
    </article>
  );
}

/** What can be done about it, the likeliest first. */
function Deeds({ matter, world, disabled }: { matter: Matter; world: World; disabled: boolean }): ReactNode {
  const { task, path } = matter;
  const row = task === undefined ? undefined : world.tasks.get(task);
  const holder = row ? assignee(row) : undefined;
  const button = (label: ReactNode, run: () => void, main = false) => (
    <button type="button" className={main ? 'button main-action' : 'button'} disabled={disabled} onClick={run}>{label}</button>
  );
  switch (matter.kind) {
    case 'review':
      return <>{task && button(<>Approve<kbd>A</kbd></>, () => approve(world, task), true)}{task && holder && button('Request changes', () => void actions.sendBack(task, holder))}</>;
    case 'answer':
    case 'blocked':
      return <>{task && holder && button('Let it go on', () => void actions.resume(task, holder), true)}{task && <ChooseAgent label="Reassign" disabled={disabled} except={holder} onChoose={(agent) => void actions.assign(task, agent)} />}</>;
    case 'failed':
      return <>{task && button('Retry', () => void actions.retry(task), true)}{task && <ChooseAgent label="Reassign" disabled={disabled} onChoose={(agent) => void actions.retry(task).then((done) => done && actions.assign(task, agent))} />}</>;
    case 'unrouted':
      return task && <ChooseAgent label="Give to" disabled={disabled} onChoose={(agent) => void actions.assign(task, agent)} />;
    case 'conflict': {
      const conflict = path === undefined ? undefined : world.files.get(path)?.conflict;
      if (!conflict || path === undefined) return null;
      return <>{[conflict.holder, conflict.intruder].map((winner) => <span key={winner}>{button(`${winner} keeps it`, () => void actions.resolve(path, winner))}</span>)}</>;
    }
    case 'handoff':
      return matter.handoff && <ChooseAgent label="Accept for" disabled={disabled} onChoose={(agent) => void actions.acceptHandoff(matter.handoff ?? '', agent)} />;
    case 'held': {
      const { message } = matter;
      return message && <>{button('Deliver', () => void actions.decideHeld(message, 'deliver'), true)}{button('Discard', () => void actions.decideHeld(message, 'discard'))}</>;
    }
    case 'mention':
      return <a className="button main-action" href={placeOf(matter)}>Answer</a>;
    case 'offline':
      return matter.agent && button('Dismiss from the team', () => void actions.dismissAgent(matter.agent ?? ''));
  }
}

function approve(world: World, task: string): void {
  const row = world.tasks.get(task);
  const holder = row ? assignee(row) : undefined;
  if (holder) void actions.approve(task, holder);
}

function placeOf(matter: Matter): string {
  if (matter.kind === 'conflict' && matter.path) return at('files', ...matter.path.split('/'));
  if (matter.kind === 'handoff' && matter.handoff) return at('handoffs', matter.handoff);
  if (matter.kind === 'mention' && matter.channel) return `${at('c', matter.channel)}?seq=${matter.seq ?? ''}`;
  if (matter.agent) return at('agents', matter.agent);
  return matter.task ? at('tasks', matter.task) : at('attention');
}

function Rest({ count }: { count: number }) {
  const { agents } = useWorld();
  const last = useStore((state) => state.events.at(-1)?.at);
  const working = [...agents.values()].filter((agent) => agent.status === 'working').length;
  return (
    <p className="empty">
      {count === 0 ? 'Nothing needs you.' : 'Nothing else.'} {working} agent{working === 1 ? '' : 's'} working
      {last !== undefined && <>, last event <Age since={last} /> ago</>}. <kbd>e</kbd> acknowledge <kbd>j</kbd> <kbd>k</kbd> move
    </p>
  );
}
