import { memo } from 'react';
import { clockSeconds, full } from '../parts/time';
import { at } from '../router';
import { describe, isTrouble, type Names } from '../store/describe';
import type { LogEvent } from '../store/event';
import { eventName } from '../store/eventNames';
import { Payload } from './Payload';

/** What every row takes, as the style sheet has it. */
export const ROW_HEIGHT = 24;

interface Props { seq: number; event: LogEvent | 'gone' | undefined; names: Names; chosen: boolean; open: boolean }

export const StreamRow = memo(function StreamRow({ seq, event, names, chosen, open }: Props) {
  const link = <a className="seq num" href={at('event', seq)}>{seq}</a>;
  const classes = chosen ? 'stream-row chosen' : 'stream-row';
  if (event === undefined || event === 'gone') return <div className={classes}>{link}<span className="quiet">{event === 'gone' ? 'not in the log any more' : '…'}</span></div>;
  const trouble = isTrouble(event);
  const tone = trouble === 'bad' ? 'tone-fail' : trouble === 'warn' ? 'tone-block' : '';
  return (
    <div>
      <div className={classes}>
        {link}
        <time className="num quiet cell-time" title={full(event.at)}>{clockSeconds(event.at)}</time>
        <span className="cut">{event.actor}</span>
        <span className={`kind cut ${tone}`}>{eventName(event)}</span>
        <span className="cut summary">{describe(event, names)}</span>
      </div>
      {open && <Payload event={event} />}
    </div>
  );
});
