// One event by its number: what it says, and what led to it.

import { useEffect, useState } from 'react';
import { events as page } from '../api/client';
import { Head, type WithMenu } from '../parts/Head';
import { full } from '../parts/time';
import { at } from '../router';
import { describe, isDeed } from '../store/describe';
import { type LogEvent, read } from '../store/event';
import { eventName } from '../store/eventNames';
import { useNames } from '../store/hooks';
import { lookAt } from '../store/replay';
import { useStore } from '../store/store';
import { Payload } from './Payload';

export default function EventView({ seq, onMenu }: { seq: number } & WithMenu) {
  const here = useStore((state) => state.events.find((event) => event.seq === seq));
  const names = useNames();
  const [found, setFound] = useState<LogEvent | 'none'>();
  useEffect(() => {
    setFound(undefined);
    if (here) return;
    page(seq - 1, 1)
      .then(([row]) => setFound(row?.seq === seq ? read(row, Date.now()) : 'none'))
      .catch(() => setFound('none'));
  }, [seq, here === undefined]);
  const event = here ?? found;
  return (
    <>
      <Head title={`Event ${Number.isFinite(seq) ? seq.toLocaleString() : '?'}`} onMenu={onMenu} />
      <div className="bar">
        <a className="button" href={at('event', Math.max(1, seq - 1))}>Previous</a>
        <a className="button" href={at('event', seq + 1)}>Next</a>
        <a className="button" href={`${at('stream')}?seq=${seq}`}>In the stream</a>
        <button type="button" className="button" onClick={() => void lookAt(seq)}>The world then</button>
      </div>
      <div className="scroll page">
        {event === undefined && <p className="empty">One moment…</p>}
        {event === 'none' && <p className="empty">The log has no event of this number.</p>}
        {event !== undefined && event !== 'none' && (
          <>
            <h2 className="title">{isDeed(event) ? `${event.actor} ` : ''}{describe(event, names)}</h2>
            <dl className="facts">
              <dt>When</dt><dd>{full(event.at)}</dd>
              <dt>Kind</dt><dd className="mono">{eventName(event)}{event.kind === eventName(event) ? null : ` (${event.kind} in the log)`}</dd>
              <dt>Author</dt><dd>{event.actor}, known by {event.auth}</dd>
              <dt>Run</dt><dd><a className="mono" href={at('runs', event.run)}>{event.run}</a></dd>
              {event.task && <><dt>Task</dt><dd><a href={at('tasks', event.task)}>{names.task(event.task)}</a></dd></>}
              {event.cause !== null && <><dt>Because of</dt><dd><a className="at" href={at('event', event.cause)}>event {event.cause}</a></dd></>}
            </dl>
            <Payload event={event} />
          </>
        )}
      </div>
      <div />
    </>
  );
}
