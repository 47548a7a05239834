// What was produced: files by their content. A preview shows text as text; HTML runs in a frame that may do nothing.

import { useEffect, useState } from 'react';
import { get, type Wire } from '../api/client';
import { Head, type WithMenu } from '../parts/Head';
import { Age } from '../parts/time';
import { at } from '../router';

const LARGEST = 512 * 1024;

export default function ArtifactsView({ chosen, onMenu }: { chosen: string | undefined } & WithMenu) {
  const [list, setList] = useState<Wire['ListedArtifact'][]>();
  useEffect(() => {
    get<Wire['ArtifactList']>('/clutch/v0/artifacts?limit=500')
      .then(({ artifacts }) => setList([...artifacts].sort((a, b) => b.stored_at - a.stored_at)))
      .catch(() => setList([]));
  }, []);
  const artifact = list?.find((entry) => entry.sha256 === chosen) ?? list?.[0];
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
            <div>{artifact && <Preview key={artifact.sha256} artifact={artifact} />}</div>
          </div>
        )}
      <div />
    </>
  );
}

const bytes = (size: number) => (size < 1024 ? `${size} B` : size < 1024 ** 2 ? `${(size / 1024).toFixed(1)} KB` : `${(size / 1024 ** 2).toFixed(1)} MB`);

type Content = { is: 'text' | 'html' | 'json'; text: string } | { is: 'image'; url: string } | { is: 'other' };

function Preview({ artifact }: { artifact: Wire['ListedArtifact'] }) {
  const [content, setContent] = useState<Content>();
  const href = `/clutch/v0/artifacts/sha256-${artifact.sha256}`;
  useEffect(() => {
    if (artifact.size > LARGEST) return setContent({ is: 'other' });
    let url: string | undefined;
    fetch(href).then((response) => response.arrayBuffer()).then((buffer) => {
      const found = judged(new Uint8Array(buffer));
      if (found.is === 'image') url = found.url;
      setContent(found);
    }).catch(() => setContent({ is: 'other' }));
    return () => (url ? URL.revokeObjectURL(url) : undefined);
  }, [href, artifact.size]);
  return (
    <>
      <h2 className="title mono">{artifact.ref}</h2>
      <div className="deeds"><span className="quiet">{bytes(artifact.size)}, {artifact.named ? 'named in the log' : 'named by nothing'}</span><a className="button push" href={href} download>Download</a></div>
      {content?.is === 'image' && <img src={content.url} alt={`Artifact ${artifact.sha256}`} style={{ maxWidth: '100%' }} />}
      {content?.is === 'html' && <iframe className="preview" title="Preview, isolated" sandbox="" srcDoc={content.text} />}
      {(content?.is === 'text' || content?.is === 'json') && <pre tabIndex={0}>{content.text}</pre>}
      {content?.is === 'other' && <p className="quiet">There is no preview of it.</p>}
    </>
  );
}

/** What it is, by its own first bytes and never by what somebody says. */
function judged(data: Uint8Array): Content {
  const begins = (...start: number[]) => start.every((byte, index) => data[index] === byte);
  const image = begins(0x89, 0x50, 0x4e, 0x47) ? 'image/png' : begins(0xff, 0xd8, 0xff) ? 'image/jpeg' : begins(0x47, 0x49, 0x46) ? 'image/gif' : undefined;
  if (image) return { is: 'image', url: URL.createObjectURL(new Blob([data as BlobPart], { type: image })) };
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(data);
  } catch {
    return { is: 'other' };
  }
  if (/^\s*(<!doctype html|<html|<svg|<\?xml)/i.test(text)) return { is: 'html', text };
  try {
    return { is: 'json', text: JSON.stringify(JSON.parse(text), null, 2) };
  } catch {
    return { is: 'text', text };
  }
}
