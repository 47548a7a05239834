// What agents write, shown. It is hostile input: every part becomes a text node; only http and https links are links, and they
// open elsewhere without telling where from. Long texts are cut until somebody asks for more.

import { Fragment, type ReactNode, useState } from 'react';

const SHORT = 3000;
const LONGEST = 60_000;

export function RichText({ text, me }: { text: string; me: string | undefined }) {
  const [whole, setWhole] = useState(false);
  const shown = text.slice(0, whole ? LONGEST : SHORT);
  const left = text.length - shown.length;
  return (
    <div className="text">
      {blocks(shown).map((block, index) =>
        block.code === undefined
          ? <Fragment key={index}>{inline(block.text ?? '', me)}</Fragment>
          : <pre key={index} tabIndex={0}>{block.code}</pre>)}
      {left > 0 && (
        <>
          {'… '}
          {whole
            ? <span className="quiet">{left.toLocaleString()} more characters are not shown</span>
            : <button type="button" className="chip" onClick={() => setWhole(true)}>Show {left.toLocaleString()} more characters</button>}
        </>
      )}
    </div>
  );
}

interface Block { text?: string; code?: string }

function blocks(text: string): Block[] {
  const found: Block[] = [];
  const fence = /```[^\n`]*\n([\s\S]*?)(?:\n```|$)/g;
  let from = 0;
  for (const match of text.matchAll(fence)) {
    if (match.index > from) found.push({ text: text.slice(from, match.index).replace(/\n$/, '') });
    found.push({ code: match[1] ?? '' });
    from = match.index + match[0].length;
    if (text[from] === '\n') from += 1;
  }
  if (from < text.length) found.push({ text: text.slice(from) });
  return found;
}

/** Code, bold, links and mentions; in that order, so that nothing inside of code is anything else. */
const INLINE = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|(https?:\/\/[^\s<>"'`)\]]+)|(?<![\w@])@((?:agent:(?=[A-Za-z]))?[A-Za-z][\w-]*(?:@[\w-]+)?)/g;

function inline(text: string, me: string | undefined): ReactNode[] {
  const parts: ReactNode[] = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > from) parts.push(text.slice(from, match.index));
    const [all, code, bold, link, name] = match;
    const key = match.index;
    if (code !== undefined) parts.push(<code key={key}>{code}</code>);
    else if (bold !== undefined) parts.push(<b key={key}>{bold}</b>);
    else if (link !== undefined) parts.push(<a key={key} href={link} target="_blank" rel="noreferrer noopener nofollow">{link}</a>);
    else parts.push(<span key={key} className={name === me ? 'at me' : 'at'}>@{name}</span>);
    from = match.index + all.length;
  }
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}
