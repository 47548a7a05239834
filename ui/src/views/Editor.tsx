// Writing a document over the version that was read. Whoever was faster is not overwritten; what is written here is kept on this
// machine until it is saved or given up.

import { useState } from 'react';
import { ApiError, path as address, send, type Wire } from '../api/client';
import { useDraft } from '../shell/draft';
import { tell } from '../store/toasts';
import { Diff } from './Diff';

type Document = Wire['DocumentBody'];

export const below = (instance: string, kind: string, path: string) => `${address`/contexts/${instance}/`}${kind}/${path.split('/').map(encodeURIComponent).join('/')}`;

interface Draft { base: number; text: string }

export function Editor({ instance, path, read, onDone }: { instance: string; path: string; read: Document | undefined; onDone: () => void }) {
  const begun = JSON.stringify({ base: read?.version ?? 0, text: read?.text ?? '' } satisfies Draft);
  const [kept, setKept, isChanged] = useDraft(`document ${instance}/${path}`, begun);
  const { base, text } = JSON.parse(kept) as Draft;
  const set = (next: Partial<Draft>) => setKept(JSON.stringify({ base, text, ...next } satisfies Draft));
  const [newer, setNewer] = useState<Document>();
  const [saving, setSaving] = useState(false);
  const leave = () => {
    setKept(begun);
    onDone();
  };
  const save = async () => {
    setSaving(true);
    try {
      await send('PUT', below(instance, 'documents', path), { text, version: base });
      tell('Saved');
      leave();
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
            <button type="button" className="button" onClick={() => { set({ text: newer.text, base: newer.version }); setNewer(undefined); }}>Take theirs</button>
            <button type="button" className="button" onClick={() => { set({ base: newer.version }); setNewer(undefined); }}>Keep mine and save over it</button>
          </div>
        </div>
      )}
      <textarea className="editor" aria-label={`Text of ${path}`} value={text} onChange={(event) => set({ text: event.target.value })} />
      <div className="deeds">
        <button type="button" className="button main-action" disabled={saving} onClick={() => void save()}>Save</button>
        <button type="button" className="button" onClick={leave}>{isChanged ? 'Give up the changes' : 'Leave'}</button>
      </div>
    </>
  );
}
