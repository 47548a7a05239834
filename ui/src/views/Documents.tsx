// Documents of a context: read, edit over the version that was read, history and differences.

import { lazy, Suspense, useEffect, useState } from 'react';
import { get, path as address, type Wire } from '../api/client';
import { Head, type WithMenu } from '../parts/Head';
import { Age, full } from '../parts/time';
import { at, go, usePlace, withQuery } from '../router';
import { useAddresses } from '../shell/rows';
import { useAsked, useNewest } from '../store/asked';
import { useMayAct } from '../store/hooks';
import { usePast } from '../store/replay';
import { useStore } from '../store/store';
import { channelTitle } from '../store/talk';
import { Diff } from './Diff';
import { below, Editor } from './Editor';

const Markdown = lazy(() => import('../parts/Markdown'));

type Document = Wire['DocumentBody'];
const NO_CHANGES: Wire['DocumentChange'][] = [];

export default function DocumentsView({ instance = 'default', path, onMenu }: { instance: string | undefined; path: string | undefined } & WithMenu) {
  const channels = useStore((state) => state.channels);
  const newest = useNewest((event) => event.kind.startsWith('document.'));
  const { value, fault } = useAsked<Wire['DocumentInfo'][]>(address`/contexts/${instance}/documents`, newest);
  const list = value ?? (fault === undefined ? undefined : []);
  const chosen = path ?? list?.[0]?.path;
  useAddresses(list ?? [], (entry) => entry.path === chosen, (entry) => at('documents', instance, ...entry.path.split('/')));
  return (
    <>
      <Head title="Documents" note={list ? `${list.length}` : ''} onMenu={onMenu}>
        <select className="field push" aria-label="Context" value={instance} onChange={(event) => go(at('documents', event.target.value))}>
          {[...new Set([...channels.keys(), instance])].map((name) => <option key={name} value={name}>{channelTitle(name)}</option>)}
        </select>
      </Head>
      <div className="bar" />
      <div className="columns">
        <nav aria-label="Documents">
          <ul>
            {list?.map((entry) => (
              <li key={entry.path}>
                <a className="tree-row" href={at('documents', instance, ...entry.path.split('/'))} {...(entry.path === chosen ? { 'aria-current': 'page' as const } : {})}>
                  <span className="cut">{entry.path}</span><span className="owner">{entry.author}, <Age since={entry.changed_at} /></span>
                </a>
              </li>
            ))}
          </ul>
          <NewDocument instance={instance} />
        </nav>
        <div>{chosen ? <One key={chosen} instance={instance} path={chosen} newest={newest} /> : <p className="quiet">No documents here yet.</p>}</div>
      </div>
      <div />
    </>
  );
}

function NewDocument({ instance }: { instance: string }) {
  const mayAct = useMayAct();
  const [name, setName] = useState('');
  if (!mayAct) return null;
  return (
    <form className="deeds" onSubmit={(event) => {
      event.preventDefault();
      if (name.trim()) go(`${at('documents', instance, ...name.trim().split('/'))}?edit=1`);
    }}>
      <input className="field" aria-label="New document" placeholder="notes.md" value={name} onChange={(event) => setName(event.target.value)} />
      <button type="submit" className="button" disabled={!name.trim()}>New</button>
    </form>
  );
}

function One({ instance, path, newest }: { instance: string; path: string; newest: number }) {
  const place = usePlace();
  const mayAct = useMayAct();
  const chosen = place.query.get('version') ?? undefined;
  const past = usePast();
  const editing = place.query.get('edit') !== null && mayAct;
  const [document, setDocument] = useState<Document | 'none'>();
  const [before, setBefore] = useState<Document | 'none'>();
  const history = useAsked<Wire['DocumentChange'][]>(below(instance, 'history', path), newest).value ?? NO_CHANGES;
  // In the past, what was written then. The newest change is the first of the list.
  const then = past && history.find((change) => change.seq <= past.at)?.version;
  const version = chosen ?? (past ? String(then ?? 0) : undefined);
  useEffect(() => {
    const read = (wanted?: string) => get<Document>(`${below(instance, 'documents', path)}${wanted ? `?version=${wanted}` : ''}`).catch(() => 'none' as const);
    // What is being edited stays as it was read: the daemon tells when somebody was faster.
    if (!editing || document === undefined) void read(version).then(setDocument);
    if (chosen && Number(chosen) > 1) void read(String(Number(chosen) - 1)).then(setBefore);
    else setBefore(undefined);
  }, [instance, path, version, newest, editing]);
  if (document === undefined) return <p className="quiet">One moment…</p>;
  const shown = document === 'none' ? undefined : document;
  return (
    <>
      <h2 className="title">{path}</h2>
      <div className="deeds">
        {shown && <span className="quiet">Version {shown.version} by {shown.author}, {full(shown.changed_at)}</span>}
        <select className="field push" aria-label="Version" value={chosen ?? ''} onChange={(event) => go(withQuery(place, { version: event.target.value || undefined, edit: undefined }), 'replace')}>
          <option value="">Newest</option>
          {history.map((change) => <option key={change.version} value={change.version}>{change.version}: {change.change} by {change.author}</option>)}
        </select>
        {!editing && <button type="button" className="button" disabled={!mayAct || chosen !== undefined} onClick={() => go(withQuery(place, { edit: '1' }), 'replace')}>Edit</button>}
      </div>
      {editing
        ? <Editor instance={instance} path={path} read={shown} onDone={() => go(withQuery(place, { edit: undefined }), 'replace')} />
        : chosen !== undefined && shown
          ? <Diff before={before === undefined || before === 'none' ? '' : before.text} after={shown.text} />
          : shown ? <Text path={path} text={shown.text} /> : <p className="quiet">{past ? 'There was no such document then.' : 'There is no such document yet.'}</p>}
    </>
  );
}

function Text({ path, text }: { path: string; text: string }) {
  const plain = <pre tabIndex={0}>{text}</pre>;
  return /\.(md|markdown)$/i.test(path) || !path.includes('.') ? <Suspense fallback={plain}><Markdown text={text} /></Suspense> : plain;
}
