// A list of what happened, each with the address of its event.

import { clock, full } from '../parts/time';
import { at } from '../router';
import { describe, isDeed } from '../store/describe';
import type { LogEvent } from '../store/event';
import { useNames } from '../store/hooks';

export function Happened({ events }: { events: readonly LogEvent[] }) {
  const names = useNames();
  return (
    <ul className="happened">
      {events.map((event) => (
        <li key={event.seq}>
          <a className="num quiet" href={at('event', event.seq)} title={full(event.at)}>{clock(event.at)}</a> {isDeed(event) && <b>{event.actor} </b>}{describe(event, names)}
        </li>
      ))}
    </ul>
  );
}
