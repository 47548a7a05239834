// Everything that the command menu offers: places to go, actions that are possible right now, and messages. Each has a key that no
// other has: the list keeps its rows by it.

import { useMemo } from 'react';
import type { Wire } from '../api/client';
import type { IconName } from '../parts/Icon';
import { at, go } from '../router';
import * as actions from '../store/actions';
import { useAsked } from '../store/asked';
import { useMayAct, useWorld } from '../store/hooks';
import { instanceOf } from '../store/instance';
import { mentionOf, shownId } from '../store/mentions';
import { useMatters } from '../store/matters';
import { DISMISS, ofAgent, ofFile, ofHandoff, ofMatter, ofTask, type Offer } from '../store/offers';
import { live, play } from '../store/replay';
import { useStore } from '../store/store';
import { channelOf, channelTitle } from '../store/talk';
import { isOpen } from '../store/world';
import { type Command, SAID } from './command';
import { GOES } from './keys';
import { toggleTheme } from './theme';

export function useCommands(): Command[] {
  const places = usePlaces();
  const now = useActionsNow();
  const said = useSaid();
  return useMemo(() => [...places.first, ...now, ...places.others, ...said], [places, now, said]);
}

export const to = (key: string, icon: IconName, title: string, hint: string, href: string): Command => ({ key, icon, title, hint, run: () => go(href) });

function usePlaces(): { first: Command[]; others: Command[] } {
  const world = useWorld();
  const channels = useStore((state) => state.channels);
  const head = useStore((state) => state.head);
  const { value: listed } = useAsked<Wire['Runs']>('/clutch/v0/runs?limit=200');
  return useMemo(() => {
    const titles = new Map(listed?.runs.map((run) => [run.run_id, run.title]));
    const runs = [...new Set([...titles.keys(), ...[...world.tasks.values()].map((task) => task.run)])].map((run) => [run, titles.get(run) ?? ''] as const);
    return {
      first: [
        ...Object.entries(GOES).map(([key, { to: href, name }]) => to(`view ${href}`, 'chevron', name, `g ${key}`, href)),
        to('setup', 'agents', 'Connect an agent', 'set-up', at('setup')),
        to('sessions', 'agents', 'Browsers that are signed in', 'sign out', at('sessions')),
        { key: 'theme', icon: 'theme', title: 'Light or dark', hint: 'T', run: toggleTheme },
        { key: 'play', icon: 'play', title: 'Play the log', hint: 'P', run: play },
        { key: 'live', icon: 'next', title: 'Return to now', hint: 'L', run: live },
        to('newest', 'stream', 'Newest event', `event ${head}`, at('event', head)),
      ],
      others: [
        ...[...channels.keys()].map((name) => to(`channel ${name}`, 'stream', `#${channelTitle(name)}`, 'channel', at('c', name))),
        ...[...channels.keys()].map((name) => to(`documents ${name}`, 'document', `Documents of #${channelTitle(name)}`, 'documents', at('documents', name))),
        ...[...world.agents.values()].map((agent) => to(`agent ${agent.id}`, 'agents', shownId(agent.id, world.agents), agent.status.replace('_', ' '), at('agents', agent.id))),
        ...runs.map(([run, title]) => to(`run ${run}`, 'runs', title || run, title ? `run ${run}` : 'run', at('runs', run))),
        ...[...world.tasks.values()].reverse().map((task) => to(`task ${task.id}`, 'tasks', task.title, `${task.state.replace('_', ' ')} ${task.id}`, at('tasks', task.id))),
        ...[...world.files.values()].map((file) => to(`file ${file.path}`, 'files', file.path, file.claim?.holder ?? '', at('files', ...file.path.split('/').filter(Boolean)))),
        ...[...world.handoffs.values()].map((handoff) => to(`handoff ${handoff.id}`, 'handoff', handoff.summary, `handoff of ${handoff.from}`, at('handoffs', handoff.id))),
      ],
    };
  }, [world, channels, head, listed]);
}

function useActionsNow(): Command[] {
  const world = useWorld();
  const matters = useMatters();
  const mayAct = useMayAct();
  return useMemo(() => {
    if (!mayAct) return [];
    // What needs an answer before it is done is done where it can be given.
    const of = (about: string, place: string, offers: readonly Offer[]) => offers.flatMap((offer): Command[] => {
      if (offer.is === 'go') return [];
      const run = offer.is === 'do' ? offer.run : () => go(place);
      const title = `${offer.label}: ${about}`;
      return [{ key: `do ${title}`, icon: 'tool', title, hint: offer.is === 'do' ? 'do it' : 'go there', run }];
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
        to(`write ${agent.id}`, 'agents', `Write to ${shownId(agent.id, world.agents)}`, 'message', `${at('c', instanceOf(agent.id))}?say=${encodeURIComponent(`@${mentionOf(agent.id, instanceOf(agent.id), world.agents)} `)}`),
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
    () => [...talk.values()].flat().reverse().map((entry): Command => ({ ...to(`said ${entry.seq}`, 'stream', entry.text.slice(0, SAID), `${entry.name} in #${channelTitle(channelOf(entry.thread))}`, `${at('c', channelOf(entry.thread))}?seq=${entry.seq}`), said: true })),
    [talk],
  );
}
