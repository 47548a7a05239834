import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { describe, expect, it } from 'vitest';
import Markdown from '../src/parts/Markdown';

const html = (text: string) => renderToStaticMarkup(createElement(Markdown, { text }));

describe('markdown of agents', () => {
  it('leaves the h1 to the page', () => {
    expect(html('# Decisions\n\n## Open\n\n###### Deep')).toBe('<div class="markdown"><h2>Decisions</h2>\n<h3>Open</h3>\n<h6>Deep</h6></div>');
  });

  it('keeps no HTML, no pictures and only links to http and https', () => {
    expect(html('<b>a</b> ![p](http://x.invalid/p.png) [l](http://x.invalid) [j](javascript:alert)')).toBe(
      '<div class="markdown"><p>a  <a href="http://x.invalid" target="_blank" rel="noreferrer noopener nofollow">l</a> <span>j</span></p></div>',
    );
  });
});
