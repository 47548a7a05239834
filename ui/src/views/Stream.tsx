// Every event, as it comes, and back to the first. Filters are in the address; pausing keeps what is in sight while the log goes on.

import { useEffect, useMemo, useRef, useState } from 'react';
import { EventList } from '../parts/EventList';
import { Head, type WithMenu } from '../parts/Head';
import { Icon } from '../parts/Icon';
import { at, go, usePlace, withQuery } from '../router';
import { useRows } from '../shell/rows';
import type { LogEvent } from '../store/event';
import { filtersOf, fits, type Filters, type Found, isFiltered, searchBack } from '../store/facets';
import { useNames } from '../store/hooks';
import { usePages } from '../store/pages';
import { usePast } from '../store/replay';
import { useStore } from '../store/store';
import { Facets } from './Facets';
import { ROW_HEIGHT, StreamRow } from './StreamRow';

/** What the list shows: so many rows, each with its number, and its event if that is here. */
interface Rows { count: number; seqAt: (index: number) => number; eventAt: (index: number) => LogEvent | 'gone' | undefined; indexOf: (seq: number) => number }

export function StreamView({ onMenu }: WithMenu) {
  const place = usePlace();
  const live = useStore((state) => state.head);
  const past = usePast();
  const names = useNames();
  const [kept, setKept] = useState<number>();
  const [peeked, setPeeked] = useState<number>();
  const head = past?.at ?? kept ?? live;
  const filters = filtersOf(place.query);
  const filtered = isFiltered(filters);
  const whole = useWhole(head);
  const some = useFiltered(filters, head);
  const rows: Rows = filtered ? some.rows : whole.rows;
  const chosen = place.query.has('seq') ? Number(place.query.get('seq')) : undefined;
  const focus = chosen === undefined ? undefined : rows.indexOf(chosen);
  const to = (changes: Record<string, string | undefined>) => go(withQuery(place, changes), 'replace');
  useRows({ count: rows.count, chosen: focus ?? rows.count, move: (index) => to({ seq: String(rows.seqAt(index)) }) }, (deed) => {
    if (deed === 'open' && chosen !== undefined) go(at('event', chosen));
    else if (deed === 'peek' && chosen !== undefined) setPeeked(peeked === chosen ? undefined : chosen);
    else return false;
    return true;
  });
  return (
    <>
      <Head title="Stream" note={filtered ? `${rows.count.toLocaleString()} found since event ${some.from.toLocaleString()}` : `${head.toLocaleString()} events`} onMenu={onMenu}>
        <button type="button" className="chip push" aria-pressed={kept !== undefined} onClick={() => setKept(kept === undefined ? live : undefined)}>
          <Icon name={kept === undefined ? 'pause' : 'play'} small />{kept === undefined ? 'Pause' : `Paused, ${(live - kept).toLocaleString()} new`}
        </button>
      </Head>
      <div className="bar" role="search" aria-label="Filter">
        <Facets filters={filters} onSet={(facet, value) => to({ [facet]: value || undefined, seq: undefined })} />
        {filtered && some.from > 1 && <button type="button" className="chip" disabled={some.searching} onClick={some.further}>{some.searching ? 'Looking…' : 'Look further back'}</button>}
      </div>
      {rows.count === 0
        ? <p className="empty">{head === 0 ? 'Nothing has happened yet.' : `Nothing fits the filter since event ${some.from.toLocaleString()}.`}</p>
        : (
          <EventList
            count={rows.count} label="Events" role="log" height={ROW_HEIGHT} paused={kept !== undefined || past !== undefined} focus={focus}
            {...(filtered ? {} : { onSight: whole.onSight })}
            render={(index) => {
              const seq = rows.seqAt(index);
              return <StreamRow key={seq} seq={seq} event={rows.eventAt(index)} names={names} chosen={seq === chosen} open={seq === peeked} />;
            }}
          />
        )}
      <div />
    </>
  );
}

/** Every event up to a place: those that the page has, and others by the page as they come into sight. */
function useWhole(head: number): { rows: Rows; onSight: (first: number, last: number) => void } {
  const events = useStore((state) => state.events);
  const pages = usePages();
  const first = events[0]?.seq ?? head + 1;
  const rows: Rows = {
    count: head,
    seqAt: (index) => index + 1,
    eventAt: (index) => events[index + 1 - first] ?? pages.get(index + 1),
    indexOf: (seq) => seq - 1,
  };
  const onSight = (from: number, to: number) => {
    if (from + 1 < first) pages.want(from + 1, Math.min(to + 1, first - 1), head);
  };
  return { rows, onSight };
}

/** Those that fit the filter, as far back as was looked. */
function useFiltered(filters: Filters, head: number): { rows: Rows; from: number; searching: boolean; further: () => void } {
  const events = useStore((state) => state.events);
  const wanted = JSON.stringify(filters);
  const [found, setFound] = useState<Found>();
  const [searching, setSearching] = useState(false);
  const asked = useRef('');
  const from = Math.min(found?.from ?? Number.POSITIVE_INFINITY, events[0]?.seq ?? head + 1);
  const further = () => {
    setSearching(true);
    searchBack(from, filters)
      .then((more) => asked.current === wanted && setFound((before) => ({ events: [...more.events, ...(before?.events ?? [])], from: more.from })))
      .catch(() => undefined)
      .finally(() => setSearching(false));
  };
  const here = useMemo(() => (isFiltered(filters) ? events.filter((event) => event.seq <= head && fits(event, filters)) : []), [events, wanted, head]);
  useEffect(() => {
    asked.current = wanted;
    setFound(undefined);
  }, [wanted]);
  const all = useMemo(() => {
    const first = here[0]?.seq ?? Number.POSITIVE_INFINITY;
    return [...(found?.events ?? []).filter((event) => event.seq < first && event.seq <= head), ...here];
  }, [found, here, head]);
  const rows: Rows = {
    count: all.length,
    seqAt: (index) => all[index]?.seq ?? 0,
    eventAt: (index) => all[index],
    indexOf: (seq) => all.findIndex((event) => event.seq === seq),
  };
  return { rows, from, searching, further };
}
