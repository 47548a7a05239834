// The top of a view.

import { type ReactNode, useEffect } from 'react';
import { useStore } from '../store/store';
import { Icon } from './Icon';

export interface WithMenu { onMenu: () => void }

export function Head({ title, note, onMenu, children }: { title: string; note?: ReactNode; onMenu: () => void; children?: ReactNode }) {
  const project = useStore((state) => state.session.project);
  useEffect(() => {
    document.title = project ? `${title} · ${project}` : title;
  }, [title, project]);
  return (
    <header className="head">
      <button type="button" className="menu-button" aria-label="Menu" onClick={onMenu}><Icon name="menu" /></button>
      <h1 className="cut">{title}</h1>
      {note !== undefined && <p className="cut">{note}</p>}
      {children}
    </header>
  );
}
