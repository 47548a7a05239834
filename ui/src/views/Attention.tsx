// What needs the person: one list, ordered by what it holds up. Each row says who, why, since when, what waits, and has the deed
// beside it.

import { useEffect, useRef, useState } from 'react';
import { Glyph } from '../parts/Glyph';
import { Head, type WithMenu } from '../parts/Head';
import { Offers } from '../parts/Offers';
import { Age } from '../parts/time';
import { at, go, usePlace, withQuery } from '../router';
import { useCursor } from '../shell/rows';
import * as actions from '../store/actions';
import type { Kind, Matter } from '../store/attention';
import { useMayAct, useWorld } from '../store/hooks';
import { useMatters } from '../store/matters';
import { ofMatter } from '../store/offers';
import { useRoster } from '../store/roster';
import { useStore } from '../store/store';
import { Peek } from './Peek';
import { SignInNote } from './SignInNote';

const KINDS: Record<Kind, string> = {
  review: 'Reviews', answer: 'Questions', blocked: 'Blocked', failed: 'Failed', unrouted: 'Nobody fits', stale: 'No sign of life', silent: 'Silent',
  offline: 'Offline', conflict: 'Conflicts', handoff: 'Handoffs', mention: 'Mentions', held: 'Held messages',
};

export function AttentionView({ onMenu }: WithMenu) {
  const place = usePlace();
  const all = useMatters();
  const world = useWorld();
  const mayAct = useMayAct();
  const kind = place.query.get('kind') ?? undefined;
  const matters = kind === undefined ? all : all.filter((matter) => matter.kind === kind);
  const kinds = [...new Set(all.map((matter) => matter.kind))];
  const [peeked, setPeeked] = useState<string>();
  const [chosen, setChosen] = useCursor(matters.length, (deed, index) => {
    const matter = matters[index];
    if (!matter) return false;
    if (deed === 'open' || deed === 'reply') go(placeOf(matter));
    else if (deed === 'peek') setPeeked(peeked === matter.key ? undefined : matter.key);
    else if (deed === 'acknowledge' && mayAct) void actions.acknowledge(matter.key);
    else if (deed === 'approve' && mayAct) return approved(matter);
    else return false;
    return true;
  });
  const approved = (matter: Matter) => {
    const offer = ofMatter(matter, world).find((one) => one.is === 'do' && one.key === 'A');
    if (offer?.is === 'do') offer.run();
    return offer !== undefined;
  };
  const to = (wanted: Kind | undefined) => go(withQuery(place, { kind: wanted }), 'replace');
  return (
    <>
      <Head title="Attention" onMenu={onMenu} note={all.length === 0 ? 'Nothing needs you' : `${all.length} need${all.length === 1 ? 's' : ''} you`} />
      <div className="bar">
        {(kinds.length > 1 || kind !== undefined) && (
          <>
            <button type="button" className="chip" aria-pressed={kind === undefined} onClick={() => to(undefined)}>All kinds</button>
            {kinds.map((name) => (
              <button key={name} type="button" className="chip" aria-pressed={kind === name} onClick={() => to(name)}>{KINDS[name]} <span className="num">{all.filter((matter) => matter.kind === name).length}</span></button>
            ))}
          </>
        )}
      </div>
      <div className="scroll">
        <ul aria-label="What needs you">
          {matters.map((matter, index) => (
            <li key={matter.key} onFocus={() => setChosen(index)}>
              <Row matter={matter} chosen={index === chosen} open={matter.key === peeked} />
            </li>
          ))}
        </ul>
        <Rest count={matters.length} />
      </div>
      {!mayAct && matters.length > 0 ? <SignInNote /> : <div />}
    </>
  );
}

function Row({ matter, chosen, open }: { matter: Matter; chosen: boolean; open: boolean }) {
  const row = useRef<HTMLElement>(null);
  const world = useWorld();
  const disabled = !useMayAct();
  useEffect(() => {
    if (chosen) row.current?.scrollIntoView({ block: 'nearest' });
  }, [chosen]);
  return (
    <article ref={row} className={chosen ? 'matter chosen' : 'matter'} aria-current={chosen}>
      <Glyph shape={matter.shape} label={KINDS[matter.kind]} />
      <a className="what cut" href={placeOf(matter)}><b>{matter.what}</b></a>
      <span className={open ? 'why' : 'why cut'}>{matter.behind > 0 ? `${matter.behind} task${matter.behind === 1 ? '' : 's'} wait${matter.behind === 1 ? 's' : ''} · ` : ''}{matter.why}</span>
      <span className="age"><Age since={matter.since} /></span>
      <span className="deeds">
        <Offers offers={ofMatter(matter, world)} disabled={disabled} />
        <button type="button" className="button plain" disabled={disabled} onClick={() => void actions.acknowledge(matter.key)}>Acknowledge</button>
      </span>
      {open && <Peek matter={matter} />}
    </article>
  );
}

function placeOf(matter: Matter): string {
  if (matter.kind === 'conflict' && matter.path) return at('files', ...matter.path.split('/'));
  if (matter.kind === 'handoff' && matter.handoff) return at('handoffs', matter.handoff);
  if (matter.kind === 'mention' && matter.channel) return `${at('c', matter.channel)}?seq=${matter.seq ?? ''}`;
  if (matter.agent) return at('agents', matter.agent);
  return matter.task ? at('tasks', matter.task) : at('attention');
}

function Rest({ count }: { count: number }) {
  const working = useRoster().filter((post) => post.shape === 'working').length;
  const last = useStore((state) => state.events.at(-1)?.at);
  return (
    <p className="empty wide-text">
      {count === 0 ? 'Nothing needs you.' : 'Nothing else.'} {working} agent{working === 1 ? '' : 's'} working
      {last !== undefined && <>, last event <Age since={last} /> ago</>}.
      <span className="hints"><kbd>j</kbd> <kbd>k</kbd> move <kbd>Space</kbd> peek <kbd>Enter</kbd> open <kbd>a</kbd> approve <kbd>e</kbd> acknowledge</span>
    </p>
  );
}
