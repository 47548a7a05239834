// A message that names a file which somebody else holds: the claim and what can be done about it, right there.

import { Icon } from '../parts/Icon';
import { lasted, useMoment } from '../parts/time';
import { at } from '../router';
import * as actions from '../store/actions';
import { useMayAct, useWorld } from '../store/hooks';
import type { Entry } from '../store/talk';
import { channelOf } from '../store/talk';
import type { FileState } from '../store/world';

export function ClaimCard({ entry }: { entry: Entry }) {
  const { files, agents } = useWorld();
  const mayAct = useMayAct();
  const now = useMoment();
  const file = named(entry, files, agents.get(entry.from)?.status === 'blocked');
  if (!file?.claim) return null;
  const { holder, since } = file.claim;
  return (
    <div className="card">
      <div className="row">
        <Icon name="files" />
        <a className="mono cut" href={at('files', ...file.path.split('/'))}>{file.path}</a>
        <span className="push quiet">Held by {holder} for {lasted(now - since)}</span>
      </div>
      <div className="row">
        <button type="button" className="button" disabled={!mayAct} onClick={() => void actions.say(channelOf(entry.thread), `@${holder} please release ${file.path}: ${entry.name} waits for it.`, entry.id)}>Ask to release</button>
        <button type="button" className="button" disabled={!mayAct} onClick={() => void actions.handOver(file.path, entry.from)}>Hand over claim</button>
      </div>
    </div>
  );
}

/** A claimed file that the text names in code quotes, held by somebody else than its blocked author. */
function named(entry: Entry, files: ReadonlyMap<string, FileState>, blocked: boolean): FileState | undefined {
  if (!blocked) return undefined;
  for (const [, path = ''] of entry.text.slice(0, 4000).matchAll(/`([^`\n]+)`/g)) {
    const file = files.get(path);
    if (file?.claim && file.claim.holder !== entry.from) return file;
  }
  return undefined;
}
