// Files and claims: a tree of what is held, and about the chosen one who holds it, who is in the way, and what happened.

import { useMemo } from 'react';
import { fileShape, fileWord, Glyph } from '../parts/Glyph';
import { Head, type WithMenu } from '../parts/Head';
import { Icon } from '../parts/Icon';
import { Offers } from '../parts/Offers';
import { Age, clock } from '../parts/time';
import { at, go, usePlace, withQuery } from '../router';
import { useAddresses } from '../shell/rows';
import { useFileHistory } from '../store/history';
import { useMayAct, useNames, useWorld } from '../store/hooks';
import { ofFile, waitersFor } from '../store/offers';
import type { FileState } from '../store/world';
import { Happened } from './Happened';

type Show = 'held' | 'conflicts' | 'all';

export default function FilesView({ chosen, onMenu }: { chosen: string | undefined } & WithMenu) {
  const { files } = useWorld();
  const place = usePlace();
  const show = (place.query.get('show') as Show | null) ?? 'held';
  const all = useMemo(() => [...files.values()].sort((a, b) => (a.path < b.path ? -1 : 1)), [files]);
  const held = all.filter((file) => file.claim || file.locked || file.conflict);
  const conflicts = all.filter((file) => file.conflict);
  const shown = { held, conflicts, all }[show];
  // A claim on a folder is written with a slash at its end, which an address does not keep.
  const file = chosen === undefined ? undefined : (files.get(chosen) ?? files.get(`${chosen}/`));
  useAddresses(shown, (entry) => entry === file, (entry) => addressOf(entry) + location.search);
  const chip = (name: Show, title: string) => <button type="button" className="chip" aria-pressed={show === name} onClick={() => go(withQuery(place, { show: name === 'held' ? undefined : name }), 'replace')}>{title}</button>;
  return (
    <>
      <Head title="Files and claims" note={`${held.length} held`} onMenu={onMenu} />
      <div className="bar">{chip('held', `Held ${held.length}`)}{chip('conflicts', `Conflicts ${conflicts.length}`)}{chip('all', `Ever touched ${all.length}`)}</div>
      <div className="columns">
        <nav aria-label="Files">
          {shown.length === 0 ? <p className="empty">No file is claimed. Agents claim files before they change them.</p> : <Tree files={shown} chosen={file?.path} />}
        </nav>
        <div>{file ? <File file={file} /> : <p className="quiet">Choose a file.</p>}</div>
      </div>
      <div />
    </>
  );
}

interface Folder { name: string; folders: Map<string, Folder>; files: FileState[] }

function Tree({ files, chosen }: { files: readonly FileState[]; chosen: string | undefined }) {
  const root = useMemo(() => {
    const top: Folder = { name: '', folders: new Map(), files: [] };
    for (const file of files) {
      const parts = file.path.replace(/\/$/, '').split('/');
      let folder = top;
      for (const part of parts.slice(0, -1)) {
        const next = folder.folders.get(part) ?? { name: part, folders: new Map(), files: [] };
        folder.folders.set(part, next);
        folder = next;
      }
      folder.files.push(file);
    }
    return top;
  }, [files]);
  return <ul><Branch folder={root} depth={0} chosen={chosen} /></ul>;
}

function Branch({ folder, depth, chosen }: { folder: Folder; depth: number; chosen: string | undefined }) {
  return (
    <>
      {[...folder.folders.values()].map((sub) => (
        <li key={sub.name}>
          <div className="tree-row" style={{ paddingLeft: 8 + depth * 16 }}><Icon name="files" small /><b>{sub.name}/</b></div>
          <ul><Branch folder={sub} depth={depth + 1} chosen={chosen} /></ul>
        </li>
      ))}
      {folder.files.map((file) => (
        <li key={file.path}>
          <a className="tree-row" style={{ paddingLeft: 8 + depth * 16 }} href={addressOf(file) + location.search} {...(chosen === file.path ? { 'aria-current': 'page' as const } : {})}>
            <Glyph shape={fileShape(file)} label={fileWord(file)} />
            <span className="cut mono">{nameOf(file.path)}</span>
            <span className="owner">{file.claim?.holder ?? (file.locked ? 'locked' : '')}{file.conflict ? ` +${file.conflict.intruder}` : ''}</span>
          </a>
        </li>
      ))}
    </>
  );
}

const addressOf = (file: FileState) => at('files', ...file.path.split('/').filter(Boolean));

const nameOf = (path: string) => (path.endsWith('/') ? `${path.split('/').at(-2)}/` : (path.split('/').at(-1) ?? path));

function File({ file }: { file: FileState }) {
  const mayAct = useMayAct();
  const names = useNames();
  const { tasks } = useWorld();
  const history = useFileHistory(file.path);
  const waiters = waitersFor(file, tasks);
  const { claim, conflict } = file;
  return (
    <>
      <h2 className="title mono">{file.path}</h2>
      <p className="state"><Glyph shape={fileShape(file)} />{fileWord(file)}</p>
      <dl className="facts">
        {claim && <><dt>Held by</dt><dd><a className="link" href={at('agents', claim.holder)}>{claim.holder}</a> since {clock(claim.since)}, <Age since={claim.since} /></dd></>}
        {claim?.task && <><dt>For</dt><dd><a className="link" href={at('tasks', claim.task)}>{names.task(claim.task)}</a></dd></>}
        {waiters.length > 0 && <><dt>Waiting</dt><dd>{waiters.map((task) => <div key={task.id}>{task.holder} for <a className="link" href={at('tasks', task.id)}>{task.title}</a>, <Age since={task.since} /></div>)}</dd></>}
        {conflict && <><dt>Conflict</dt><dd>{conflict.intruder} changed it while {conflict.holder} holds it, <Age since={conflict.since} /> ago</dd></>}
        {file.lastModifiedBy && <><dt>Changed last by</dt><dd>{file.lastModifiedBy}</dd></>}
      </dl>
      <div className="deeds"><Offers offers={ofFile(file, tasks)} disabled={!mayAct} /></div>
      <h3 className="subtitle">What happened</h3>
      <Happened events={[...history].reverse()} />
    </>
  );
}
