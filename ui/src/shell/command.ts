// One row of the command menu, and which rows fit what is typed, the best first.

import type { IconName } from '../parts/Icon';

export interface Command {
  /** Names this row and no other one. */
  key: string;
  icon: IconName;
  title: string;
  hint: string;
  /** Whether it is a message: those come after places and actions. */
  said?: boolean;
  run: () => void;
}

/** So much of a message is shown, and searched. */
export const SAID = 200;

/** The number of the event that a text names, if it names one. */
export function eventNumber(wanted: string): number | undefined {
  const text = wanted.trim();
  return /^#?\d+$/.test(text) ? Number(text.replace('#', '')) : undefined;
}

/** The commands that a text fits, by how well it does: the title as a whole, its beginning, a word of it, then what is beside it. */
export function ranked(commands: readonly Command[], wanted: string): Command[] {
  const text = wanted.trim().toLowerCase();
  if (text === '') return [...commands];
  return commands
    .map((command) => ({ command, score: score(command, text) }))
    .filter(({ score: found }) => found > 0)
    .sort((a, b) => b.score - a.score)
    .map(({ command }) => command);
}

/** Messages are many, and each has many words: the best of them comes after every place and action that has the text in its title. */
function score({ title, hint, said }: Command, wanted: string): number {
  const name = title.toLowerCase();
  const beside = hint.toLowerCase();
  const all = `${name} ${beside}`;
  const found = Math.max(titled(name, wanted), titled(plain(name), plain(wanted)));
  if (said) return found > 0 ? 30 + found / 10 : beside.includes(wanted) || hasAll(all, wanted) ? 25 : 0;
  if (found > 0) return found;
  if (hasAll(all, wanted)) return 50;
  // Letters in order, but only within a short text: everything is somewhere in a long one.
  return all.length <= SAID / 2 && hasInOrder(all, wanted) ? 20 : 0;
}

function titled(name: string, wanted: string): number {
  const place = wanted === '' ? -1 : name.indexOf(wanted);
  if (place === -1) return 0;
  if (name === wanted) return 100;
  if (place === 0) return 90;
  return /[^\p{L}\p{N}]/u.test(name[place - 1] ?? '') ? 80 : 60;
}

/** `retry: end-to-end` is `retry end to end`. */
function plain(text: string): string {
  return text.replace(/[^\p{L}\p{N}]+/gu, ' ').trim();
}

function hasAll(text: string, wanted: string): boolean {
  return wanted.split(/\s+/).every((part) => text.includes(part));
}

function hasInOrder(text: string, wanted: string): boolean {
  let from = 0;
  for (const letter of wanted) {
    from = text.indexOf(letter, from) + 1;
    if (from === 0) return false;
  }
  return true;
}
