// A button that asks whom before it does something.

import { useState } from 'react';
import { useWorld } from '../store/hooks';

export function ChooseAgent({ label, disabled, except, onChoose }: { label: string; disabled: boolean; except?: string | undefined; onChoose: (agent: string) => void }) {
  const { agents } = useWorld();
  const [open, setOpen] = useState(false);
  const ids = [...agents.values()].filter((agent) => agent.id !== except && agent.status !== 'offline').map((agent) => agent.id);
  if (!open) return <button type="button" className="button" disabled={disabled || ids.length === 0} onClick={() => setOpen(true)}>{label}</button>;
  return (
    <select
      className="field" autoFocus aria-label={label} defaultValue=""
      onBlur={() => setOpen(false)}
      onChange={(event) => {
        setOpen(false);
        if (event.target.value) onChoose(event.target.value);
      }}
    >
      <option value="" disabled>{label} …</option>
      {ids.map((id) => <option key={id}>{id}</option>)}
    </select>
  );
}
