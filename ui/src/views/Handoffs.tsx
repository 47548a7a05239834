// The inbox of handoffs: what was done, what is left, and whether to take it.

import { Head, type WithMenu } from '../parts/Head';
import { Glyph } from '../parts/Glyph';
import { Offers } from '../parts/Offers';
import { RichText } from '../parts/RichText';
import { Age } from '../parts/time';
import { at } from '../router';
import { useAddresses } from '../shell/rows';
import { useMayAct, useNames, useWorld } from '../store/hooks';
import { ofHandoff } from '../store/offers';
import type { Handoff } from '../store/world';

export default function HandoffsView({ chosen, onMenu }: { chosen: string | undefined } & WithMenu) {
  const { handoffs } = useWorld();
  const names = useNames();
  const all = [...handoffs.values()].reverse();
  const pending = all.filter((handoff) => handoff.status === 'pending');
  const listed = [...pending, ...all.filter((handoff) => handoff.status !== 'pending')];
  const handoff = (chosen === undefined ? undefined : handoffs.get(chosen)) ?? listed[0];
  useAddresses(listed, (entry) => entry === handoff, (entry) => at('handoffs', entry.id));
  return (
    <>
      <Head title="Handoffs" note={`${pending.length} pending`} onMenu={onMenu} />
      <div className="bar" />
      {listed.length === 0
        ? <p className="empty">Nobody has handed anything over yet.</p>
        : (
          <div className="columns">
            <nav aria-label="Handoffs">
              <ul>
                {listed.slice(0, 300).map((entry) => (
                  <li key={entry.id}>
                    <a className="tree-row" href={at('handoffs', entry.id)} {...(entry === handoff ? { 'aria-current': 'page' as const } : {})}>
                      <Glyph shape={entry.status === 'pending' ? 'waiting' : entry.status === 'accepted' ? 'done' : 'cancelled'} label={entry.status} />
                      <span className="cut">{names.task(entry.task)}</span>
                      <span className="owner">{entry.from} to {entry.to ?? 'anyone'}</span>
                    </a>
                  </li>
                ))}
              </ul>
            </nav>
            <div>{handoff && <Body handoff={handoff} />}</div>
          </div>
        )}
      <div />
    </>
  );
}

function Body({ handoff }: { handoff: Handoff }) {
  const mayAct = useMayAct();
  const names = useNames();
  return (
    <>
      <h2 className="title">{names.task(handoff.task)}</h2>
      <RichText text={handoff.summary} me={undefined} />
      <dl className="facts">
        <dt>From</dt><dd>{handoff.from}</dd>
        <dt>To</dt><dd>{handoff.to ?? 'whoever takes it'}</dd>
        <dt>Status</dt><dd>{handoff.status}{handoff.answeredBy && ` by ${handoff.answeredBy}`}{handoff.reason && `: ${handoff.reason}`}, <Age since={handoff.createdAt} /></dd>
        <dt>Task</dt><dd><a href={at('tasks', handoff.task)}>{names.task(handoff.task)}</a></dd>
      </dl>
      <List title="Blockers" entries={handoff.blockers} />
      <List title="Changed files" entries={handoff.filesModified} mono />
      <List title="New files" entries={handoff.filesCreated} mono />
      {handoff.context && <><h3 className="subtitle">Context</h3><RichText text={handoff.context} me={undefined} /></>}
      <div className="deeds"><Offers offers={ofHandoff(handoff)} disabled={!mayAct} /></div>
    </>
  );
}

function List({ title, entries, mono = false }: { title: string; entries: readonly string[]; mono?: boolean }) {
  if (entries.length === 0) return null;
  return <><h3 className="subtitle">{title}</h3><ul className={mono ? 'mono' : ''}>{entries.map((entry) => <li key={entry}>{entry}</li>)}</ul></>;
}
