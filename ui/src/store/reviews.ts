// Which message asks for which review. Each task in review has at most one such message, and each message asks for at most one.

import type { Entry } from './talk';
import type { Task } from './world';

/** How long before the task came into review the message that asks for it may have been written. */
const ABOUT_MILLIS = 120_000;

const ASKS = /\b(reviews?|reviewed|approv\w*|sign[ -]?off|signs? off|lgtm|merge|check|look)\b/i;

/** Messages that ask for a review, by their ids, with the task that is to be reviewed. */
export function reviewRequests(entries: readonly Entry[], tasks: ReadonlyMap<string, Task>): ReadonlyMap<string, Task> {
  const found = new Map<string, Task>();
  const waiting = [...tasks.values()].filter((task) => task.state === 'review' && task.holder !== undefined).sort((a, b) => a.since - b.since);
  // What a message names is more than what it may be about: those tasks choose first.
  const unnamed = waiting.filter((task) => !choose(found, task, entries.filter((entry) => mayAsk(entry, task) && isNamed(task, entry))));
  for (const task of unnamed) {
    const names = (entry: Entry) => [...tasks.values()].some((other) => other !== task && isNamed(other, entry));
    choose(found, task, entries.filter((entry) => mayAsk(entry, task) && ASKS.test(entry.text) && !names(entry)));
  }
  return found;
}

/** Gives a task the first of some messages that asks for no other one. */
function choose(found: Map<string, Task>, task: Task, among: readonly Entry[]): boolean {
  const first = among.find((entry) => !found.has(entry.id));
  if (first) found.set(first.id, task);
  return first !== undefined;
}

/** Whether its author holds the task, and addressed somebody when it came into review or later. */
function mayAsk(entry: Entry, task: Task): boolean {
  const addressed = entry.mentions.length + entry.people.length + entry.unknown.length > 0;
  return addressed && entry.from === task.holder && entry.at > task.since - ABOUT_MILLIS;
}

/** Whether the text has the task's id or its title; a title of one word may be a word like any other. */
function isNamed(task: Task, entry: Entry): boolean {
  const text = entry.text.toLowerCase();
  return text.includes(task.id.toLowerCase()) || (/\S\s+\S/.test(task.title) && text.includes(task.title.toLowerCase()));
}
