// Jump to anything and do anything, by a few letters.

import { useMemo, useState } from 'react';
import { Icon, type IconName } from '../parts/Icon';
import { at, go } from '../router';
import { useWorld } from '../store/hooks';
import { live } from '../store/replay';
import { useStore } from '../store/store';
import { channelTitle } from '../store/talk';
import { Dialog } from './Dialog';
import { GOES } from './keys';
import { toggleTheme } from './theme';

interface Command { key: string; icon: IconName; title: string; hint: string; run: () => void }

const MOST = 40;

export function CommandMenu({ onClose }: { onClose: () => void }) {
  const [wanted, setWanted] = useState('');
  const [chosen, setChosen] = useState(0);
  const commands = useCommands();
  const found = useMemo(() => ranked(commands, wanted).slice(0, MOST), [commands, wanted]);
  const run = (command: Command | undefined) => {
    if (!command) return;
    onClose();
    command.run();
  };
  const keys = (event: React.KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by !== undefined) {
      event.preventDefault();
      setChosen((before) => Math.max(0, Math.min(found.length - 1, before + by)));
    } else if (event.key === 'Enter') run(found[chosen]);
  };
  return (
    <Dialog label="Search or jump to" onClose={onClose}>
      <input
        role="combobox" aria-expanded="true" aria-controls="commands" aria-label="Search or jump to"
        aria-activedescendant={found[chosen] ? `command-${chosen}` : undefined}
        placeholder="A channel, an agent, a task, a file, an event number…"
        value={wanted}
        onChange={(event) => {
          setWanted(event.target.value);
          setChosen(0);
        }}
        onKeyDown={keys}
      />
      <ul role="listbox" id="commands" aria-label="Found">
        {found.map((command, index) => (
          <li
            key={command.key} id={`command-${index}`} role="option" aria-selected={index === chosen}
            onMouseMove={() => setChosen(index)} onClick={() => run(command)}
          >
            <Icon name={command.icon} /><span className="cut">{command.title}</span><span className="push quiet cut">{command.hint}</span>
          </li>
        ))}
        {found.length === 0 && <li role="option" aria-selected="false" className="quiet">Nothing is called so</li>}
      </ul>
    </Dialog>
  );
}

function useCommands(): Command[] {
  const world = useWorld();
  const channels = useStore((state) => state.channels);
  const head = useStore((state) => state.head);
  return useMemo(() => {
    const to = (icon: IconName, title: string, hint: string, href: string): Command => ({ key: href, icon, title, hint, run: () => go(href) });
    return [
      ...Object.entries(GOES).map(([key, { to: href, name }]) => to('chevron', name, `g ${key}`, href)),
      to('agents', 'Connect an agent', 'set-up', at('setup')),
      { key: 'theme', icon: 'theme' as const, title: 'Light or dark', hint: 'T', run: toggleTheme },
      { key: 'live', icon: 'play' as const, title: 'Return to now', hint: 'L', run: live },
      to('stream', 'Newest event', `event ${head}`, at('event', head)),
      ...[...channels.keys()].map((name) => to('stream', `#${channelTitle(name)}`, 'channel', at('c', name))),
      ...[...world.agents.values()].map((agent) => to('agents', agent.id, agent.status.replace('_', ' '), at('agents', agent.id))),
      ...[...world.tasks.values()].reverse().map((task) => to('tasks', task.title, task.state.replace('_', ' '), at('tasks', task.id))),
      ...[...world.files.values()].filter((file) => file.claim || file.conflict).map((file) => to('files', file.path, file.claim?.holder ?? '', at('files', ...file.path.split('/')))),
    ];
  }, [world, channels, head]);
}

/** Those whose letters are there in order; beginnings of words come first. A number is an event. */
function ranked(commands: Command[], wanted: string): Command[] {
  const text = wanted.trim().toLowerCase();
  if (text === '') return commands;
  const scored = commands
    .map((command) => ({ command, score: score(`${command.title} ${command.hint}`.toLowerCase(), text) }))
    .filter(({ score: found }) => found > 0)
    .sort((a, b) => b.score - a.score)
    .map(({ command }) => command);
  const event = /^#?\d+$/.test(text) ? Number(text.replace('#', '')) : undefined;
  if (event === undefined) return scored;
  const href = at('event', event);
  return [{ key: 'number', icon: 'stream', title: `Event ${event}`, hint: 'permalink', run: () => go(href) }, ...scored];
}

function score(text: string, wanted: string): number {
  const place = text.indexOf(wanted);
  if (place === 0) return 100;
  if (place > 0) return /[^a-z0-9]/.test(text[place - 1] ?? '') ? 80 : 60;
  let from = 0;
  for (const letter of wanted) {
    from = text.indexOf(letter, from) + 1;
    if (from === 0) return 0;
  }
  return 20;
}
