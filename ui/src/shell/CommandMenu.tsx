// Jump to anything and do anything, by a few letters.

import { useMemo, useState } from 'react';
import { Icon } from '../parts/Icon';
import { at } from '../router';
import { type Command, eventNumber, ranked } from './command';
import { to, useCommands } from './commands';
import { Dialog } from './Dialog';

const MOST = 40;

export default function CommandMenu({ onClose }: { onClose: () => void }) {
  const [wanted, setWanted] = useState('');
  const [chosen, setChosen] = useState(0);
  const commands = useCommands();
  const found = useMemo(() => matching(commands, wanted).slice(0, MOST), [commands, wanted]);
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
        placeholder="Search pages, actions, agents, tasks, files, messages, event numbers…"
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
            ref={(row) => (index === chosen ? row?.scrollIntoView({ block: 'nearest' }) : undefined)}
            onMouseMove={() => setChosen(index)} onClick={() => run(command)}
          >
            <Icon name={command.icon} /><span className="cut">{command.title}</span><span className="push quiet cut">{command.hint}</span>
          </li>
        ))}
        {found.length === 0 && <li role="option" aria-selected="false" className="quiet">No results</li>}
      </ul>
    </Dialog>
  );
}

/** A number is first of all that of an event. */
function matching(commands: readonly Command[], wanted: string): Command[] {
  const event = eventNumber(wanted);
  const found = ranked(commands, wanted);
  return event === undefined ? found : [to(`event ${event}`, 'stream', `Event ${event}`, 'permalink', at('event', event)), ...found];
}
