// Everything that the command menu offers: places to go, deeds that are possible right now, and what was said.

import { useMemo } from 'react';
import type { IconName } from '../parts/Icon';
import { at, go } from '../router';
import * as actions from '../store/actions';
import { useMayAct, useWorld } from '../store/hooks';
import { instanceOf } from '../store/instance';
import { useMatters } from '../store/matters';
import { DISMISS, ofAgent, ofFile, ofHandoff, ofMatter, ofTask, type Offer } from '../store/offers';
import { live, play } from '../store/replay';
import { useStore } from '../store/store';
import { channelOf, channelTitle } from '../store/talk';
import { isOpen } from '../store/world';
import { GOES } from './keys';
import { toggleTheme } from './theme';

export interface Command { key: string; icon: IconName; title: string; hint: string; run: () => void }

/** So much of a message is shown, and searched. */
const SAID = 200;

export function useCommands(): Command[] {
  const places = usePlaces();
  const deeds = useDeedsNow();
  const said = useSaid();
  return useMemo(() => [...places.first, ...deeds, ...places.others, ...said], [places, deeds, said]);
}

const to = (icon: IconName, title: string, hint: string, href: string): Command => ({ key: href, icon, title, hint, run: () => go(href) });

function usePlaces(): { first: Command[]; others: Command[] } {
  const world = useWorld();
  const channels = useStore((state) => state.channels);
  const head = useStore((state) => state.head);
  return useMemo(() => {
    const runs = [...new Set([...world.tasks.values()].map((task) => task.run))];
    return {
      first: [
        ...Object.entries(GOES).map(([key, { to: href, name }]) => to('chevron', name, `g ${key}`, href)),
        to('agents', 'Connect an agent', 'set-up', at('setup')),
        to('play', 'Start a workflow file', 'teams', at('start')),
        to('agents', 'Browsers that are signed in', 'sign out', at('sessions')),
        { key: 'theme', icon: 'theme', title: 'Light or dark', hint: 'T', run: toggleTheme },
        { key: 'play', icon: 'play', title: 'Play the log', hint: 'P', run: play },
        { key: 'live', icon: 'next', title: 'Return to now', hint: 'L', run: live },
        to('stream', 'Newest event', `event ${head}`, at('event', head)),
      ],
      others: [
        ...[...channels.keys()].map((name) => to('stream', `#${channelTitle(name)}`, 'channel', at('c', name))),
        ...[...channels.keys()].map((name) => to('document', `Documents of #${channelTitle(name)}`, 'documents', at('documents', name))),
        ...[...world.agents.values()].map((agent) => to('agents', agent.id, agent.status.replace('_', ' '), at('agents', agent.id))),
        ...runs.map((run) => to('runs', run, 'run', at('runs', run))),
        ...[...world.tasks.values()].reverse().map((task) => to('tasks', task.title, `${task.state.replace('_', ' ')} ${task.id}`, at('tasks', task.id))),
        ...[...world.files.values()].map((file) => to('files', file.path, file.claim?.holder ?? '', at('files', ...file.path.split('/').filter(Boolean)))),
        ...[...world.handoffs.values()].map((handoff) => to('handoff', handoff.summary, `handoff of ${handoff.from}`, at('handoffs', handoff.id))),
      ],
    };
  }, [world, channels, head]);
}

function useDeedsNow(): Command[] {
  const world = useWorld();
  const matters = useMatters();
  const mayAct = useMayAct();
  return useMemo(() => {
    if (!mayAct) return [];
    // What needs an answer before it is done is done where it can be given.
    const of = (about: string, place: string, offers: readonly Offer[]) => offers.flatMap((offer): Command[] => {
      if (offer.is === 'go') return [];
      const run = offer.is === 'do' ? offer.run : () => go(place);
      return [{ key: `${offer.label} ${place}`, icon: 'tool', title: `${offer.label}: ${about}`, hint: offer.is === 'do' ? 'do it' : 'go there', run }];
    });
    // Two of one name are told apart by what else they are called, and are not answered in passing.
    const open = [...world.tasks.values()].filter((task) => isOpen(task.state));
    const once = (names: readonly string[]) => (name: string) => names.indexOf(name) === names.lastIndexOf(name);
    const oneTask = once(open.map((task) => task.title));
    const oneMatter = once(matters.map((matter) => matter.what));
    const all = [
      ...matters.filter((matter) => oneMatter(matter.what)).flatMap((matter) => of(matter.what, at('attention'), ofMatter(matter, world))),
      ...matters.map((matter): Command => ({ key: `ack ${matter.key}`, icon: 'bell', title: `Acknowledge: ${matter.what}`, hint: 'do it', run: () => void actions.acknowledge(matter.key) })),
      ...open.flatMap((task) => of(oneTask(task.title) ? task.title : `${task.title} (${task.id})`, at('tasks', task.id), ofTask(task, world))),
      ...[...world.agents.values()].flatMap((agent) => [
        to('agents', `Write to ${agent.id}`, 'message', `${at('c', instanceOf(agent.id))}?say=${encodeURIComponent(`@${agent.id} `)}`),
        // Who is run by a runner, and so cannot be dismissed, is known on its page.
        ...of(agent.id, at('agents', agent.id), ofAgent(agent, world, undefined).filter((offer) => offer.label !== DISMISS)),
      ]),
      ...[...world.files.values()].filter((file) => file.claim).flatMap((file) => of(file.path, at('files', ...file.path.split('/').filter(Boolean)), ofFile(file, world.tasks))),
      ...[...world.handoffs.values()].flatMap((handoff) => of(handoff.summary, at('handoffs', handoff.id), ofHandoff(handoff))),
    ];
    return [...new Map(all.map((command) => [command.title, command])).values()];
  }, [world, matters, mayAct]);
}

function useSaid(): Command[] {
  const talk = useStore((state) => state.talk);
  return useMemo(
    () => [...talk.values()].flat().reverse().map((entry) => to('stream', entry.text.slice(0, SAID), `${entry.name} in #${channelTitle(channelOf(entry.thread))}`, `${at('c', channelOf(entry.thread))}?seq=${entry.seq}`)),
    [talk],
  );
}

/** Those whose letters are there in order; beginnings of words come first. A number is an event. */
export function ranked(commands: readonly Command[], wanted: string): Command[] {
  const text = wanted.trim().toLowerCase();
  if (text === '') return [...commands];
  const scored = commands
    .map((command) => ({ command, score: command.title.toLowerCase() === text ? 120 : score(`${command.title} ${command.hint}`.toLowerCase(), text) }))
    .filter(({ score: found }) => found > 0)
    .sort((a, b) => b.score - a.score)
    .map(({ command }) => command);
  const event = /^#?\d+$/.test(text) ? Number(text.replace('#', '')) : undefined;
  if (event === undefined) return scored;
  return [to('stream', `Event ${event}`, 'permalink', at('event', event)), ...scored];
}

function score(text: string, wanted: string): number {
  const place = text.indexOf(wanted);
  if (place === 0) return 100;
  if (place > 0) return /[^a-z0-9]/.test(text[place - 1] ?? '') ? 80 : 60;
  if (wanted.split(/\s+/).every((word) => text.includes(word))) return 40;
  // Letters in order, but only within a short text: everything is somewhere in a long one.
  if (text.length > SAID / 2) return 0;
  let from = 0;
  for (const letter of wanted) {
    from = text.indexOf(letter, from) + 1;
    if (from === 0) return 0;
  }
  return 20;
}
