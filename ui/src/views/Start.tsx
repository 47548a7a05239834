// Starting the team of a workflow file: choose one, see what it would do or what is wrong with it, and have the daemon run it.

import { useState } from 'react';
import { ApiError, path, send, type Wire } from '../api/client';
import { Head, type WithMenu } from '../parts/Head';
import { at, go, usePlace } from '../router';
import { useAsked, useNewest } from '../store/asked';
import { useMayAct } from '../store/hooks';
import { tell } from '../store/toasts';
import { asObject, type FileParam, paramsOf, paramWords } from '../store/teamFile';
import { canStart, CheckedFile } from './CheckedFile';
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
  const [params, setParams] = useState<{ file: string; known: FileParam[]; values: Record<string, string> }>({ file: '', known: [], values: {} });
  const [checked, setChecked] = useState<Wire['TeamFileCheck']>();
  const [busy, setBusy] = useState<'check' | 'start'>();
  const fields = params.file === file.trim() ? params.known : [];
  const values = params.file === file.trim() ? params.values : {};
  const body = { file: file.trim(), params: paramWords(values) };
  const team = `@${instance.trim()}`;
  const change = (set: (text: string) => void) => (event: { target: { value: string } }) => {
    set(event.target.value);
    setChecked(undefined);
  };
  const ask = async (what: 'check' | 'start') => {
    setBusy(what);
    try {
      if (what === 'check') {
        const found = await send<Wire['TeamFileCheck']>('POST', path`/teams/${team}/dry-run`, body);
        if (found.ok) setParams({ file: body.file, known: paramsOf(asObject(found.plan)), values });
        return setChecked(found);
      }
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
            if (ready) void ask(canStart(checked) ? 'start' : 'check');
          }}
        >
          <label>File<input className="field" list="workflow-files" placeholder="team.yaml" value={file} onChange={change(setFile)} /></label>
          <datalist id="workflow-files">{files.map((found) => <option key={found.path} value={found.path}>{found.name ?? ''}</option>)}</datalist>
          <label>Team<input className="field" value={instance} onChange={change(setInstance)} /></label>
          {fields.map(({ name, value, description }) => (
            <label key={name} title={description}>
              {name}
              <input
                className="field" required={value === undefined && !values[name]} placeholder={value === undefined ? (description ?? 'required') : (values[name] ? '' : value)} value={values[name] ?? ''}
                onChange={change((text) => setParams({ ...params, values: { ...values, [name]: text } }))}
              />
            </label>
          ))}
          <div className="deeds">
            <button type="submit" className={canStart(checked) ? 'button' : 'button main-action'} disabled={!ready} onClick={(event) => { event.preventDefault(); void ask('check'); }}>{busy === 'check' ? 'Looking…' : 'See what it would do'}</button>
            <button type="button" className={canStart(checked) ? 'button main-action' : 'button'} disabled={!ready || !canStart(checked)} onClick={() => void ask('start')}>{busy === 'start' ? 'Starting…' : `Start ${team}`}</button>
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
