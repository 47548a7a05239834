// A button that asks why before it does something that others will want to understand, or that cannot be taken back.

import { useState } from 'react';

interface Props { label: string; ask: string; disabled: boolean; must?: boolean; onDo: (why: string) => void }

export function AskWhy({ label, ask, disabled, must = false, onDo }: Props) {
  const [open, setOpen] = useState(false);
  const [why, setWhy] = useState('');
  if (!open || disabled) return <button type="button" className="button" disabled={disabled} onClick={() => setOpen(true)}>{label}</button>;
  const close = () => {
    setOpen(false);
    setWhy('');
  };
  return (
    <form
      className="ask" onSubmit={(event) => {
        event.preventDefault();
        if (disabled) return;
        onDo(why.trim());
        close();
      }}
      onKeyDown={(event) => event.key === 'Escape' && close()}
    >
      <input className="field" autoFocus aria-label={ask} placeholder={ask} value={why} onChange={(event) => setWhy(event.target.value)} />
      <button type="submit" className="button main-action" disabled={must && why.trim() === ''}>{label}</button>
      <button type="button" className="button plain" onClick={close}>Leave it</button>
    </form>
  );
}
