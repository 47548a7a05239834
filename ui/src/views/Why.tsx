// Why a task went to an agent: who was left out and for what reason, then how the others compare.

import { at } from '../router';
import { candidates, refused } from '../store/describe';
import { type LogEvent, plain, text } from '../store/event';

export function Why({ event, title }: { event: LogEvent; title: string }) {
  const decision = event.payload;
  const chosen = text(decision, 'selected') === undefined ? undefined : plain(text(decision, 'selected') ?? '');
  const best = candidates(decision);
  const out = refused(decision);
  return (
    <>
      <h3>{chosen ? `Why ${chosen}` : 'Why nobody'} <span className="cut">for {title}</span><a href={at('event', event.seq)}>Event</a></h3>
      {best.map((entry) => (
        <div className="candidate" key={entry.agent}>
          {entry.agent === chosen ? <b className="cut">{entry.agent}</b> : <span className="cut">{entry.agent}</span>}
          <span className="meter" role="img" aria-label={`Preference match ${entry.score.toFixed(2)}`}>
            <i className="fill-run" style={{ width: `${Math.min(1, entry.score) * 100}%` }} />
          </span>
          <span className="num">{entry.score.toFixed(2)}</span>
        </div>
      ))}
      {out.map((entry) => (
        <div className="candidate out" key={entry.agent}><span className="cut">{entry.agent}</span><span className="why cut" title={entry.reason}>Filtered out, {entry.reason}</span></div>
      ))}
      <p className="quiet">{text(decision, 'reason')}</p>
      {best.length > 0 && <div className="legend"><span><i className="fill-run" />Preference match</span></div>}
    </>
  );
}
