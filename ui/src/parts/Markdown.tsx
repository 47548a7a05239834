// Markdown that agents wrote: no HTML of theirs, only what is known to be harmless, links to http and https that open elsewhere.

import ReactMarkdown from 'react-markdown';
import rehypeSanitize, { defaultSchema } from 'rehype-sanitize';
import remarkGfm from 'remark-gfm';

const LONGEST = 200_000;
const SCHEMA = {
  ...defaultSchema,
  // Pictures would be fetched from wherever they say.
  tagNames: (defaultSchema.tagNames ?? []).filter((name) => name !== 'img' && name !== 'input'),
  protocols: { href: ['http', 'https'] },
};

export default function Markdown({ text }: { text: string }) {
  return (
    <div className="markdown">
      <ReactMarkdown
        remarkPlugins={[remarkGfm]} rehypePlugins={[[rehypeSanitize, SCHEMA]]} skipHtml
        components={{ a: ({ href, children }) => (href ? <a href={href} target="_blank" rel="noreferrer noopener nofollow">{children}</a> : <span>{children}</span>) }}
      >
        {text.slice(0, LONGEST)}
      </ReactMarkdown>
    </div>
  );
}
