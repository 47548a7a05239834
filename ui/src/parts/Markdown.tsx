// Markdown that agents wrote: no HTML of theirs, only what is known to be harmless, links to http and https that open elsewhere.

import ReactMarkdown, { type Components } from 'react-markdown';
import rehypeSanitize, { defaultSchema } from 'rehype-sanitize';
import remarkGfm from 'remark-gfm';

const LONGEST = 200_000;
const SCHEMA = {
  ...defaultSchema,
  // Pictures would be fetched from wherever they say.
  tagNames: (defaultSchema.tagNames ?? []).filter((name) => name !== 'img' && name !== 'input'),
  protocols: { href: ['http', 'https'] },
};

// The page has the only h1: headings of the text begin one level below it.
const COMPONENTS: Components = {
  h1: ({ children }) => <h2>{children}</h2>,
  h2: ({ children }) => <h3>{children}</h3>,
  h3: ({ children }) => <h4>{children}</h4>,
  h4: ({ children }) => <h5>{children}</h5>,
  h5: ({ children }) => <h6>{children}</h6>,
  a: ({ href, children }) => (href ? <a href={href} target="_blank" rel="noreferrer noopener nofollow">{children}</a> : <span>{children}</span>),
};

export default function Markdown({ text }: { text: string }) {
  return (
    <div className="markdown">
      <ReactMarkdown remarkPlugins={[remarkGfm]} rehypePlugins={[[rehypeSanitize, SCHEMA]]} skipHtml components={COMPONENTS}>
        {text.slice(0, LONGEST)}
      </ReactMarkdown>
    </div>
  );
}
