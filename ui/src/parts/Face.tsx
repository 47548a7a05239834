// Who somebody is, at a glance: initials on a colour that is theirs for good.

import { bare } from '../store/talk';
import { useStore } from '../store/store';

export function Face({ id, size = '' }: { id: string; size?: '' | 'large' | 'tiny' }) {
  const me = useStore((state) => state.session.person);
  const mine = me !== undefined && id === `person:${me}`;
  const hue = mine ? 'me' : String(hash(id) % 8);
  return <span className={`face ${size} hue-${hue}`} aria-hidden="true">{mine ? 'ME' : initials(id)}</span>;
}

export function initials(id: string): string {
  const name = bare(id.replace(/^person:/, ''));
  const words = name.split(/[^a-zA-Z0-9]+/).filter(Boolean);
  const [first = '?', second] = words;
  const last = second ?? /\d+$/.exec(first)?.[0];
  return (last ? first.charAt(0) + last.charAt(0) : first.slice(0, 2)).toUpperCase();
}

function hash(text: string): number {
  let value = 7;
  for (const letter of text) value = (value * 31 + (letter.codePointAt(0) ?? 0)) >>> 0;
  return value;
}
