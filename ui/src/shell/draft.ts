// A text that is being written, kept on this machine until it is sent, so that a reload or a look elsewhere does not lose it.

import { useState } from 'react';

const PREFIX = 'rookery.draft ';

export function useDraft(key: string, otherwise = ''): [string, (text: string) => void, boolean] {
  const name = PREFIX + key;
  const [held, setHeld] = useState(() => ({ name, text: localStorage.getItem(name) ?? otherwise }));
  const text = held.name === name ? held.text : (localStorage.getItem(name) ?? otherwise);
  const set = (next: string) => {
    setHeld({ name, text: next });
    if (next === otherwise) localStorage.removeItem(name);
    else localStorage.setItem(name, next);
  };
  return [text, set, text !== otherwise];
}
