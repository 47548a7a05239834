// What some bytes are, by their own look and never by what somebody says of them.

export type Content =
  | { is: 'text' | 'markdown' | 'diff' | 'html' | 'json'; text: string }
  | { is: 'image'; type: string }
  | { is: 'other' };

const IMAGES: [string, number[], number][] = [
  ['image/png', [0x89, 0x50, 0x4e, 0x47], 0],
  ['image/jpeg', [0xff, 0xd8, 0xff], 0],
  ['image/gif', [0x47, 0x49, 0x46, 0x38], 0],
  ['image/webp', [0x57, 0x45, 0x42, 0x50], 8],
];

/** `whole` is false if more follows that is not here. */
export function contentOf(data: Uint8Array, whole: boolean): Content {
  const image = IMAGES.find(([, bytes, from]) => bytes.every((byte, index) => data[from + index] === byte));
  if (image) return whole ? { is: 'image', type: image[0] } : { is: 'other' };
  const text = decoded(data, whole);
  if (text === undefined || text.includes('\0')) return { is: 'other' };
  if (/^\s*(<!doctype html|<html|<svg|<\?xml)/i.test(text)) return { is: 'html', text };
  if (/^(diff --git |--- .+\n\+\+\+ )/m.test(text) && /^@@ /m.test(text)) return { is: 'diff', text };
  const json = whole ? pretty(text) : undefined;
  if (json !== undefined) return { is: 'json', text: json };
  return { is: /^(#{1,6} |```)|^\s*[-*] .*(\*\*|`)|\]\(https?:/m.test(text) ? 'markdown' : 'text', text };
}

function decoded(data: Uint8Array, whole: boolean): string | undefined {
  try {
    // A cut may go through a letter: that is no reason to take it for something else.
    return new TextDecoder('utf-8', { fatal: true }).decode(data, { stream: !whole });
  } catch {
    return undefined;
  }
}

function pretty(text: string): string | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return undefined;
  }
}
