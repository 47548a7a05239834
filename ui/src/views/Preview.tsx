// An artifact to look at. Text stays text; HTML is shown in a frame that may run nothing, load nothing and reach nothing.

import { lazy, Suspense, useEffect, useState } from 'react';
import { call } from '../api/client';
import { type Content, contentOf } from '../layout/content';

const Markdown = lazy(() => import('../parts/Markdown'));

/** So much is read for a preview. */
const LARGEST = 512 * 1024;

type Shown = Exclude<Content, { is: 'image' }> | { is: 'image'; url: string };

export const bytes = (size: number) => (size < 1024 ? `${size} B` : size < 1024 ** 2 ? `${(size / 1024).toFixed(1)} KB` : `${(size / 1024 ** 2).toFixed(1)} MB`);

export function Preview({ href, size, sha256 }: { href: string; size: number; sha256: string }) {
  const [content, setContent] = useState<Shown>();
  const [plain, setPlain] = useState(false);
  const whole = size <= LARGEST;
  useEffect(() => {
    let url: string | undefined;
    let wanted = true;
    read(href, whole).then((data) => {
      const found = contentOf(data, whole);
      if (found.is === 'image') url = URL.createObjectURL(new Blob([data as BlobPart], { type: found.type }));
      if (wanted) setContent(found.is === 'image' ? { is: 'image', url: url ?? '' } : found);
    }).catch(() => wanted && setContent({ is: 'other' }));
    return () => {
      wanted = false;
      if (url) URL.revokeObjectURL(url);
    };
  }, [href, whole]);
  if (content === undefined) return <p className="quiet">One moment…</p>;
  const rich = content.is === 'markdown' || content.is === 'html' || content.is === 'diff';
  return (
    <>
      {rich && <button type="button" className="chip" aria-pressed={plain} onClick={() => setPlain(!plain)}>As text</button>}
      {content.is === 'other' ? <p className="quiet">There is no preview of it.</p>
        : content.is === 'image' ? <img className="picture-of" src={content.url} alt={`Artifact ${sha256}`} />
          : plain || !rich ? <pre tabIndex={0}>{content.text}</pre>
            : <Rich content={content} />}
      {!whole && content.is !== 'other' && <p className="quiet">These are the first {bytes(LARGEST)}.</p>}
    </>
  );
}

async function read(href: string, whole: boolean): Promise<Uint8Array> {
  const response = await call(href, whole ? {} : { headers: { range: `bytes=0-${LARGEST - 1}` } });
  return new Uint8Array(await response.arrayBuffer());
}

function Rich({ content }: { content: Exclude<Shown, { is: 'image' | 'other' }> }) {
  switch (content.is) {
    case 'html': return <iframe className="preview" title="Preview, isolated" sandbox="" srcDoc={content.text} />;
    case 'diff': return <Patch text={content.text} />;
    default: return <Suspense fallback={<pre tabIndex={0}>{content.text}</pre>}><Markdown text={content.text} /></Suspense>;
  }
}

/** A patch, with what it adds and removes marked. */
function Patch({ text }: { text: string }) {
  const kind = (line: string) => (/^(\+\+\+|---|diff |index )/.test(line) ? 'same quiet' : line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : 'same');
  return <div className="diff" role="group" aria-label="Difference" tabIndex={0}>{text.split('\n').map((line, index) => <div key={index} className={kind(line)}>{line || ' '}</div>)}</div>;
}
