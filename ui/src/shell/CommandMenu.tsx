// Jump to anything and do anything, by a few letters.

import { useMemo, useState } from 'react';
import { Icon } from '../parts/Icon';
import { type Command, ranked, useCommands } from './commands';
import { Dialog } from './Dialog';

const MOST = 40;

export default function CommandMenu({ onClose }: { onClose: () => void }) {
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
        placeholder="A place, a deed, an agent, a task, a file, an event number, what was said…"
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
        {found.length === 0 && <li role="option" aria-selected="false" className="quiet">Nothing is called so</li>}
      </ul>
    </Dialog>
  );
}
