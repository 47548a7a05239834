// Every event, as it comes. Filters are in the address; pausing keeps what is in sight while the log goes on.

import { memo, useMemo, useState } from 'react';
import { EventList } from '../parts/EventList';
import { Head, type WithMenu } from '../parts/Head';
import { Icon } from '../parts/Icon';
import { clockSeconds, full } from '../parts/time';
import { at, go, usePlace, withQuery } from '../router';
import { useDeeds } from '../shell/keys';
import { describe, isTrouble, type Names, pathOf } from '../store/describe';
import type { LogEvent } from '../store/event';
import { useNames } from '../store/hooks';
import { usePast } from '../store/replay';
import { earlier, useStore } from '../store/store';

const FACETS = ['kind', 'agent', 'run', 'task', 'file', 'level'] as const;
type Facet = (typeof FACETS)[number];
const PAGE = 500;

export function StreamView({ onMenu }: WithMenu) {
  const place = usePlace();
  const events = useStore((state) => state.events);
  const past = usePast();
  const names = useNames();
  const [kept, setKept] = useState<readonly LogEvent[]>();
  const [shift, setShift] = useState(false);
  const source = kept ?? events;
  const filters = Object.fromEntries(FACETS.map((facet) => [facet, place.query.get(facet) ?? ''])) as Record<Facet, string>;
  const wanted = FACETS.map((facet) => filters[facet]).join('\n');
  const rows = useMemo(
    () => source.filter((event) => (past === undefined || event.seq <= past.at) && FACETS.every((facet) => fits(event, facet, filters[facet]))),
    [source, wanted, past],
  );
  const more = () => {
    if (kept) return;
    setShift(true);
    void earlier(PAGE).finally(() => requestAnimationFrame(() => setShift(false)));
  };
  useDeeds((deed) => {
    if (deed !== 'filter') return false;
    document.querySelector<HTMLElement>('.bar input')?.focus();
    return true;
  });
  return (
    <>
      <Head title="Stream" note={`${rows.length.toLocaleString()} of ${source.length.toLocaleString()} here`} onMenu={onMenu}>
        <button type="button" className="chip push" aria-pressed={kept !== undefined} onClick={() => setKept(kept ? undefined : events)}>
          <Icon name={kept ? 'play' : 'pause'} small />{kept ? `Paused, ${(events.at(-1)?.seq ?? 0) - (kept.at(-1)?.seq ?? 0)} new` : 'Pause'}
        </button>
      </Head>
      <div className="bar" role="search" aria-label="Filter">
        <Facets source={source} filters={filters} onSet={(facet, value) => go(withQuery(place, { [facet]: value || undefined }), 'replace')} />
      </div>
      {rows.length === 0
        ? <p className="empty">{source.length === 0 ? 'Nothing has happened yet.' : 'Nothing fits the filter among the events that are here.'}</p>
        : (
          <EventList
            rows={rows} keyOf={(event) => event.seq} label="Events" role="log" onStart={more} shift={shift} paused={kept !== undefined}
            focus={place.query.has('seq') ? Number(place.query.get('seq')) : undefined}
            render={(event) => <Row event={event} names={names} chosen={String(event.seq) === place.query.get('seq')} />}
          />
        )}
      <div />
    </>
  );
}

function fits(event: LogEvent, facet: Facet, wanted: string): boolean {
  if (wanted === '') return true;
  switch (facet) {
    case 'kind': return event.kind.includes(wanted) || event.type.includes(wanted);
    case 'agent': return event.actor === wanted || event.payload['agent'] === wanted || event.payload['holder'] === wanted;
    case 'run': return event.run === wanted;
    case 'task': return event.task === wanted || event.payload['task'] === wanted;
    case 'file': return pathOf(event.payload).includes(wanted);
    case 'level': return isTrouble(event) !== undefined;
  }
}

function Facets({ source, filters, onSet }: { source: readonly LogEvent[]; filters: Record<Facet, string>; onSet: (facet: Facet, value: string) => void }) {
  const { kinds, actors, runs } = useMemo(() => {
    const recent = source.slice(-5000);
    const sorted = (values: string[]) => [...new Set(values)].filter(Boolean).sort();
    return { kinds: sorted(recent.map((event) => event.kind)), actors: sorted(recent.map((event) => event.actor)), runs: sorted(recent.map((event) => event.run)) };
  }, [Math.floor(source.length / 100), source.length === 0]);
  const choice = (facet: Facet, all: string, values: string[]) => (
    <select className="field" aria-label={all} value={filters[facet]} onChange={(event) => onSet(facet, event.target.value)}>
      <option value="">{all}</option>
      {[...new Set([...values, filters[facet]])].filter(Boolean).map((value) => <option key={value}>{value}</option>)}
    </select>
  );
  return (
    <>
      <input className="field" type="search" aria-label="Kind contains" placeholder="Kind, for example task." value={filters.kind} list="kinds" onChange={(event) => onSet('kind', event.target.value)} />
      <datalist id="kinds">{kinds.map((kind) => <option key={kind} value={kind} />)}</datalist>
      {choice('agent', 'Everybody', actors)}
      {choice('run', 'All runs', runs)}
      <input className="field" type="search" aria-label="File contains" placeholder="File" value={filters.file} onChange={(event) => onSet('file', event.target.value)} />
      <button type="button" className="chip" aria-pressed={filters.level !== ''} onClick={() => onSet('level', filters.level ? '' : 'trouble')}>Trouble only</button>
      {filters.task && <button type="button" className="chip on" onClick={() => onSet('task', '')}>{filters.task}<Icon name="close" small /></button>}
    </>
  );
}

const Row = memo(function Row({ event, names, chosen }: { event: LogEvent; names: Names; chosen: boolean }) {
  const trouble = isTrouble(event);
  return (
    <div className={chosen ? 'stream-row chosen' : 'stream-row'}>
      <a className="seq num" href={at('event', event.seq)}>{event.seq}</a>
      <time className="num quiet cell-time" title={full(event.at)}>{clockSeconds(event.at)}</time>
      <span className="cut">{event.actor}</span>
      <span className={`kind cut ${trouble === 'bad' ? 'tone-fail' : trouble === 'warn' ? 'tone-block' : ''}`}>{event.kind === 'envelope.received' ? event.type : event.kind}</span>
      <span className="cut summary">{describe(event, names)}</span>
    </div>
  );
});
