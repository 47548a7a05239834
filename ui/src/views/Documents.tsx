// Documents of a context: read, edit over the version that was read, history and differences.

import { lazy, Suspense, useEffect, useState } from 'react';
import { ApiError, get, path as address, send, type Wire } from '../api/client';
import { Head, type WithMenu } from '../parts/Head';
import { Age, full } from '../parts/time';
import { at, go, usePlace, withQuery } from '../router';
import { useMayAct } from '../store/hooks';
import { useStore } from '../store/store';
import { channelTitle } from '../store/talk';
import { tell } from '../store/toasts';
import { Diff } from './Diff';

const Markdown = lazy(() => import('../parts/Markdown'));

type Document = Wire['DocumentBody'];
const below = (instance: string, kind: string, path: string) => `${address`/contexts/${instance}/`}${kind}/${path.split('/').map(encodeURIComponent).join('/')}`;

export default function DocumentsView({ instance = 'default', path, onMenu }: { instance: string | undefined; path: string | undefined } & WithMenu) {
  const channels = useStore((state) => state.channels);
  const newest = useStore((state) => state.events.findLast((event) => event.kind.startsWith('document.'))?.seq ?? 0);
  const [list, setList] = useState<Wire['DocumentInfo'][]>();
  useEffect(() => {
    get<Wire['DocumentInfo'][]>(address`/contexts/${instance}/documents`).then(setList).catch(() => setList([]));
  }, [instance, newest]);
  const chosen = path ?? list?.[0]?.path;
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
  const version = place.query.get('version') ?? undefined;
  const editing = place.query.get('edit') !== null && mayAct;
  const [document, setDocument] = useState<Document | 'none'>();
  const [before, setBefore] = useState<Document | 'none'>();
  const [history, setHistory] = useState<Wire['DocumentChange'][]>([]);
  useEffect(() => {
    const read = (wanted?: string) => get<Document>(`${below(instance, 'documents', path)}${wanted ? `?version=${wanted}` : ''}`).catch(() => 'none' as const);
    // What is being edited stays as it was read: the daemon tells when somebody was faster.
    if (!editing || document === undefined) void read(version).then(setDocument);
    if (version && Number(version) > 1) void read(String(Number(version) - 1)).then(setBefore);
    else setBefore(undefined);
    get<Wire['DocumentChange'][]>(below(instance, 'history', path)).then(setHistory).catch(() => setHistory([]));
  }, [instance, path, version, newest, editing]);
  if (document === undefined) return <p className="quiet">One moment…</p>;
  const shown = document === 'none' ? undefined : document;
  return (
    <>
      <h2 className="title">{path}</h2>
      <div className="deeds">
        {shown && <span className="quiet">Version {shown.version} by {shown.author}, {full(shown.changed_at)}</span>}
        <select className="field push" aria-label="Version" value={version ?? ''} onChange={(event) => go(withQuery(place, { version: event.target.value || undefined, edit: undefined }), 'replace')}>
          <option value="">Newest</option>
          {history.map((change) => <option key={change.version} value={change.version}>{change.version}: {change.change} by {change.author}</option>)}
        </select>
        {!editing && <button type="button" className="button" disabled={!mayAct || version !== undefined} onClick={() => go(withQuery(place, { edit: '1' }), 'replace')}>Edit</button>}
      </div>
      {editing
        ? <Editor instance={instance} path={path} read={shown} onDone={() => go(withQuery(place, { edit: undefined }), 'replace')} />
        : version !== undefined && shown
          ? <Diff before={before === undefined || before === 'none' ? '' : before.text} after={shown.text} />
          : shown ? <Suspense fallback={<pre>{shown.text}</pre>}><Markdown text={shown.text} /></Suspense> : <p className="quiet">There is no such document yet.</p>}
    </>
  );
}

function Editor({ instance, path, read, onDone }: { instance: string; path: string; read: Document | undefined; onDone: () => void }) {
  const [base, setBase] = useState(read?.version ?? 0);
  const [text, setText] = useState(read?.text ?? '');
  const [newer, setNewer] = useState<Document>();
  const [saving, setSaving] = useState(false);
  const save = async () => {
    setSaving(true);
    try {
      await send('PUT', below(instance, 'documents', path), { text, version: base });
      tell('Saved');
      onDone();
    } catch (error) {
      const body = error instanceof ApiError && error.code === 'STALE_VERSION' ? (error.body as { newer?: Document | null }) : undefined;
      if (body?.newer) setNewer(body.newer);
      else tell(error instanceof Error ? error.message : 'It was not saved', 'bad');
    } finally {
      setSaving(false);
    }
  };
  return (
    <>
      {newer && (
        <div className="note-box" role="alert">
          <p>{newer.author} wrote version {newer.version} meanwhile. Nothing was saved. This is what it changes in your text:</p>
          <Diff before={text} after={newer.text} />
          <div className="deeds">
            <button type="button" className="button" onClick={() => { setText(newer.text); setBase(newer.version); setNewer(undefined); }}>Take theirs</button>
            <button type="button" className="button" onClick={() => { setBase(newer.version); setNewer(undefined); }}>Keep mine and save over it</button>
          </div>
        </div>
      )}
      <textarea className="editor" aria-label={`Text of ${path}`} value={text} onChange={(event) => setText(event.target.value)} />
      <div className="deeds">
        <button type="button" className="button main-action" disabled={saving} onClick={() => void save()}>Save</button>
        <button type="button" className="button" onClick={onDone}>Leave</button>
      </div>
    </>
  );
}
