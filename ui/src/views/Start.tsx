// Starting the team of a workflow file: choose one, see what it would do or what is wrong with it, and have the daemon run it.

import { useState } from 'react';
import { ApiError, path, send, type Wire } from '../api/client';
import { Head, type WithMenu } from '../parts/Head';
import { at, go, usePlace } from '../router';
import { useAsked, useNewest } from '../store/asked';
import { useMayAct } from '../store/hooks';
import { tell } from '../store/toasts';
import { CheckedFile } from './CheckedFile';
import { SignInNote } from './SignInNote';
import { TeamList } from './TeamList';

export default function StartView({ onMenu }: WithMenu) {
  const place = usePlace();
  const mayAct = useMayAct();
  const newest = useNewest((event) => event.kind === 'file.modified' || event.kind === 'file.untracked_changed');
  const { value } = useAsked<Wire['WorkflowFiles']>('/team-files', newest);
  const files = value?.files ?? [];
  const [file, setFile] = useState(place.query.get('file') ?? '');
  const [instance, setInstance] = useState('default');
  const [params, setParams] = useState('');
  const [checked, setChecked] = useState<Wire['TeamFileCheck']>();
  const [busy, setBusy] = useState<'check' | 'start'>();
  const body = { file: file.trim(), params: words(params) };
  const team = `@${instance.trim()}`;
  const change = (set: (text: string) => void) => (event: { target: { value: string } }) => {
    set(event.target.value);
    setChecked(undefined);
  };
  const ask = async (what: 'check' | 'start') => {
    setBusy(what);
    try {
      if (what === 'check') return setChecked(await send<Wire['TeamFileCheck']>('POST', path`/teams/${team}/dry-run`, body));
      const answer = await send<Wire['TeamView'] | Wire['PendingTeamStart']>('POST', path`/teams/${team}/start-request`, body);
      tell('pending' in answer ? `${team} is being started` : `${team} runs`);
      go(at('c', instance.trim()));
    } catch (error) {
      const hint = error instanceof ApiError && error.hint ? ` (${error.hint})` : '';
      setChecked({ ok: false, reason: `${error instanceof Error ? error.message : 'The daemon does not answer'}${hint}` });
    } finally {
      setBusy(undefined);
    }
  };
  const ready = mayAct && body.file !== '' && instance.trim() !== '' && busy === undefined;
  return (
    <>
      <Head title="Start a workflow file" note="The daemon runs its team in the background" onMenu={onMenu} />
      <div className="bar" />
      <div className="scroll page">
        <form
          className="start" onSubmit={(event) => {
            event.preventDefault();
            if (ready) void ask(checked?.ok ? 'start' : 'check');
          }}
        >
          <label>File<input className="field" list="workflow-files" placeholder="team.yaml" value={file} onChange={change(setFile)} /></label>
          <datalist id="workflow-files">{files.map((found) => <option key={found.path} value={found.path}>{found.name ?? ''}</option>)}</datalist>
          <label>Team<input className="field" value={instance} onChange={change(setInstance)} /></label>
          <label>Parameters<input className="field" placeholder="--name value" value={params} onChange={change(setParams)} /></label>
          <div className="deeds">
            <button type="submit" className={checked?.ok ? 'button' : 'button main-action'} disabled={!ready} onClick={(event) => { event.preventDefault(); void ask('check'); }}>{busy === 'check' ? 'Looking…' : 'See what it would do'}</button>
            <button type="button" className={checked?.ok ? 'button main-action' : 'button'} disabled={!ready || !checked?.ok} onClick={() => void ask('start')}>{busy === 'start' ? 'Starting…' : `Start ${team}`}</button>
          </div>
        </form>
        {files.length > 0 && (
          <p className="quiet">In this project: {files.slice(0, 12).map((found) => <button key={found.path} type="button" className="chip mono" aria-pressed={found.path === file} onClick={() => { setFile(found.path); setChecked(undefined); }}>{found.path}</button>)}</p>
        )}
        {value && files.length === 0 && <p className="quiet">There is no workflow file in the project yet: one says who is in a team and what begins it. <code>rookery schema workflow</code> describes it for editors.</p>}
        {checked && <CheckedFile checked={checked} />}
        <TeamList />
      </div>
      {mayAct ? <div /> : <SignInNote />}
    </>
  );
}

/** As a shell would take them apart, with quotes and without anything else of a shell. */
function words(text: string): string[] {
  return [...text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, double, single, bare]) => double ?? single ?? bare ?? '');
}
