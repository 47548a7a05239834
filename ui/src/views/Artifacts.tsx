// What was produced: files by their content, and who named them for what.

import { useMemo } from 'react';
import type { Wire } from '../api/client';
import { Head, type WithMenu } from '../parts/Head';
import { Age } from '../parts/time';
import { at } from '../router';
import { useAddresses } from '../shell/rows';
import * as actions from '../store/actions';
import { useAsked } from '../store/asked';
import type { LogEvent } from '../store/event';
import { useNames } from '../store/hooks';
import { useStore } from '../store/store';
import { Happened } from './Happened';
import { bytes, Preview } from './Preview';

export default function ArtifactsView({ chosen, onMenu }: { chosen: string | undefined } & WithMenu) {
  const head = useStore((state) => state.head);
  const { value, fault } = useAsked<Wire['ArtifactList']>('/clutch/v0/artifacts?limit=1000', head);
  const list = useMemo(() => (value ? [...value.artifacts].sort((a, b) => b.stored_at - a.stored_at) : fault === undefined ? undefined : []), [value, fault]);
  const artifact = list?.find((entry) => entry.sha256 === chosen) ?? list?.[0];
  useAddresses(list ?? [], (entry) => entry === artifact, (entry) => at('artifacts', entry.sha256));
  return (
    <>
      <Head title="Artifacts" note={list ? `${list.length}` : ''} onMenu={onMenu} />
      <div className="bar" />
      {list?.length === 0
        ? <p className="empty">Nothing was uploaded yet. <code>rookery artifacts put FILE</code> uploads something.</p>
        : (
          <div className="columns">
            <nav aria-label="Artifacts">
              <ul>
                {list?.map((entry) => (
                  <li key={entry.sha256}>
                    <a className="tree-row" href={at('artifacts', entry.sha256)} {...(entry === artifact ? { 'aria-current': 'page' as const } : {})}>
                      <span className="cut mono">{entry.sha256.slice(0, 16)}</span><span className="owner">{bytes(entry.size)}, <Age since={entry.stored_at} /></span>
                    </a>
                  </li>
                ))}
              </ul>
            </nav>
            <div>{artifact && <One key={artifact.sha256} artifact={artifact} />}</div>
          </div>
        )}
      <div />
    </>
  );
}

function One({ artifact }: { artifact: Wire['ListedArtifact'] }) {
  const href = `/clutch/v0/artifacts/sha256-${artifact.sha256}`;
  const names = useNames();
  const events = useStore((state) => state.events);
  const naming = useMemo(() => events.filter((event) => isNamedBy(event, artifact.sha256)).slice(-5), [events.length, artifact.sha256]);
  const task = naming.find((event) => event.task !== null)?.task;
  return (
    <>
      <h2 className="title mono">{artifact.ref}</h2>
      <div className="deeds">
        <span className="quiet">{bytes(artifact.size)}, {artifact.named ? 'named in the log' : 'named by nothing'}{task && <>, of <a className="link" href={at('tasks', task)}>{names.task(task)}</a></>}</span>
        <button type="button" className="button push" onClick={() => void actions.download(href, `sha256-${artifact.sha256}`)}>Download</button>
      </div>
      <Preview href={href} size={artifact.size} sha256={artifact.sha256} />
      {naming.length > 0 && <><h3 className="subtitle">Named by</h3><Happened events={naming} /></>}
    </>
  );
}

function isNamedBy(event: LogEvent, sha256: string): boolean {
  return event.refs?.some((ref) => ref.includes(sha256)) || JSON.stringify(event.payload).includes(sha256);
}
