import { ChooseAgent } from '../parts/Choose';
import { Head, type WithMenu } from '../parts/Head';
import { Glyph } from '../parts/Glyph';
import { RichText } from '../parts/RichText';
import { Age } from '../parts/time';
import { at } from '../router';
import * as actions from '../store/actions';
import { useMayAct, useNames, useWorld } from '../store/hooks';
import type { Handoff } from '../store/world';

export default function HandoffsView({ chosen, onMenu }: { chosen: string | undefined } & WithMenu) {
  const { handoffs } = useWorld();
  const names = useNames();
  const all = [...handoffs.values()].reverse();
  const pending = all.filter((handoff) => handoff.status === 'pending');
  const listed = [...pending, ...all.filter((handoff) => handoff.status !== 'pending')];
  const handoff = (chosen === undefined ? undefined : handoffs.get(chosen)) ?? listed[0];
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
  const pending = handoff.status === 'pending';
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
      {pending && (
        <div className="deeds">
          {handoff.to && <button type="button" className="button main-action" disabled={!mayAct} onClick={() => void actions.acceptHandoff(handoff.id, handoff.to ?? '')}>Accept for {handoff.to}</button>}
          {!handoff.to && <ChooseAgent label="Accept for" disabled={!mayAct} except={handoff.from} onChoose={(agent) => void actions.acceptHandoff(handoff.id, agent)} />}
          {handoff.to && <button type="button" className="button" disabled={!mayAct} onClick={() => void actions.rejectHandoff(handoff.id, handoff.to ?? '', 'rejected by a person')}>Reject</button>}
        </div>
      )}
    </>
  );
}

function List({ title, entries, mono = false }: { title: string; entries: readonly string[]; mono?: boolean }) {
  if (entries.length === 0) return null;
  return <><h3 className="subtitle">{title}</h3><ul className={mono ? 'mono' : ''}>{entries.map((entry) => <li key={entry}>{entry}</li>)}</ul></>;
}
