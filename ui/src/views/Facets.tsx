// The filters of the stream.

import { useMemo } from 'react';
import { Icon } from '../parts/Icon';
import { type Facet, type Filters, LEVELS } from '../store/facets';
import { eventName } from '../store/eventNames';
import { useNames, useWorld } from '../store/hooks';
import { useStore } from '../store/store';

/** The choices are those of so many of the newest events. */
const RECENT = 5000;

export function Facets({ filters, onSet }: { filters: Filters; onSet: (facet: Facet, value: string) => void }) {
  const events = useStore((state) => state.events);
  const { agents } = useWorld();
  const names = useNames();
  const { kinds, actors, runs } = useMemo(() => {
    const recent = events.slice(-RECENT);
    const sorted = (values: string[]) => [...new Set(values)].filter(Boolean).sort();
    return {
      kinds: sorted(recent.map(eventName)),
      actors: sorted([...recent.map((event) => event.actor), ...agents.keys()]),
      runs: sorted(recent.map((event) => event.run)),
    };
  }, [Math.floor(events.length / 100), events.length === 0, agents.size]);
  const choice = (facet: Facet, all: string, values: readonly [string, string][]) => (
    <select className="field" aria-label={all} value={filters[facet]} onChange={(event) => onSet(facet, event.target.value)}>
      <option value="">{all}</option>
      {values.map(([value, title]) => <option key={value} value={value}>{title}</option>)}
      {filters[facet] && !values.some(([value]) => value === filters[facet]) && <option value={filters[facet]}>{filters[facet]}</option>}
    </select>
  );
  const same = (values: string[]) => values.map((value): [string, string] => [value, value]);
  return (
    <>
      <input className="field" type="search" aria-label="Kind contains" placeholder="Kind, for example task." value={filters.kind} list="kinds" onChange={(event) => onSet('kind', event.target.value)} />
      <datalist id="kinds">{kinds.map((kind) => <option key={kind} value={kind} />)}</datalist>
      {choice('agent', 'Everybody', same(actors))}
      {choice('run', 'All runs', same(runs))}
      {choice('level', 'All levels', Object.entries(LEVELS))}
      <input className="field" type="search" aria-label="File contains" placeholder="File" value={filters.file} onChange={(event) => onSet('file', event.target.value)} />
      {filters.task && <button type="button" className="chip on" onClick={() => onSet('task', '')}>{names.task(filters.task)}<Icon name="close" small /></button>}
    </>
  );
}
