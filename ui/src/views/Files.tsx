// Files and claims: a tree of what is held, and about the chosen one who holds it, who is in the way, and what happened.

import { useMemo, useState } from 'react';
import { ChooseAgent } from '../parts/Choose';
import { Glyph, type Shape } from '../parts/Glyph';
import { Head, type WithMenu } from '../parts/Head';
import { Icon } from '../parts/Icon';
import { Age, clock } from '../parts/time';
import { at } from '../router';
import * as actions from '../store/actions';
import { pathOf } from '../store/describe';
import { useMayAct, useNames, useWorld } from '../store/hooks';
import { useStore } from '../store/store';
import type { FileState } from '../store/world';
import { Happened } from './Happened';

type Show = 'held' | 'conflicts' | 'all';

export default function FilesView({ chosen, onMenu }: { chosen: string | undefined } & WithMenu) {
  const { files } = useWorld();
  const [show, setShow] = useState<Show>('held');
  const all = useMemo(() => [...files.values()].sort((a, b) => (a.path < b.path ? -1 : 1)), [files]);
  const held = all.filter((file) => file.claim || file.locked || file.conflict);
  const conflicts = all.filter((file) => file.conflict);
  const shown = { held, conflicts, all }[show];
  // A claim on a folder is written with a slash at its end, which an address does not keep.
  const file = chosen === undefined ? undefined : (files.get(chosen) ?? files.get(`${chosen}/`));
  const chip = (name: Show, title: string) => <button type="button" className="chip" aria-pressed={show === name} onClick={() => setShow(name)}>{title}</button>;
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
          <a className="tree-row" style={{ paddingLeft: 8 + depth * 16 }} href={at('files', ...file.path.split('/').filter(Boolean))} {...(chosen === file.path ? { 'aria-current': 'page' as const } : {})}>
            <Glyph shape={shapeOf(file)} label={wordOf(file)} />
            <span className="cut mono">{nameOf(file.path)}</span>
            <span className="owner">{file.claim?.holder ?? (file.locked ? 'locked' : '')}{file.conflict ? ` +${file.conflict.intruder}` : ''}</span>
          </a>
        </li>
      ))}
    </>
  );
}

const nameOf = (path: string) => (path.endsWith('/') ? `${path.split('/').at(-2)}/` : (path.split('/').at(-1) ?? path));

function shapeOf(file: FileState): Shape {
  if (file.conflict) return 'conflicted';
  if (file.locked) return 'blocked';
  return file.claim ? 'assigned' : 'idle';
}

function wordOf(file: FileState): string {
  if (file.conflict) return 'in conflict';
  if (file.locked) return 'locked';
  return file.claim ? 'held' : 'free';
}

function File({ file }: { file: FileState }) {
  const mayAct = useMayAct();
  const names = useNames();
  const events = useStore((state) => state.events);
  const own = useMemo(() => events.filter((event) => event.kind.startsWith('resource.') && pathOf(event.payload) === file.path), [events, file.path]);
  const { claim, conflict } = file;
  return (
    <>
      <h2 className="title mono">{file.path}</h2>
      <p className="state"><Glyph shape={shapeOf(file)} />{wordOf(file)}</p>
      <dl className="facts">
        {claim && <><dt>Held by</dt><dd><a href={at('agents', claim.holder)}>{claim.holder}</a> since {clock(claim.since)}, <Age since={claim.since} /></dd></>}
        {claim?.task && <><dt>For</dt><dd><a href={at('tasks', claim.task)}>{names.task(claim.task)}</a></dd></>}
        {conflict && <><dt>Conflict</dt><dd>{conflict.intruder} changed it while {conflict.holder} holds it, <Age since={conflict.since} /> ago</dd></>}
        {file.lastModifiedBy && <><dt>Changed last by</dt><dd>{file.lastModifiedBy}</dd></>}
      </dl>
      <div className="deeds">
        {conflict && [conflict.holder, conflict.intruder].map((winner) => <button key={winner} type="button" className="button main-action" disabled={!mayAct} onClick={() => void actions.resolve(file.path, winner)}>{winner} keeps it</button>)}
        {claim && <button type="button" className="button" disabled={!mayAct} onClick={() => void actions.release(file.path, claim.holder)}>Release</button>}
        {claim && <ChooseAgent label="Hand over" disabled={!mayAct} except={claim.holder} onChoose={(agent) => void actions.handOver(file.path, agent)} />}
      </div>
      <h3 className="subtitle">What happened</h3>
      <Happened events={own.slice(-60).reverse()} />
    </>
  );
}
