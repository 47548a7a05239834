// The browsers that are signed in: this one and the others, and signing them out.

import { useState } from 'react';
import type { Wire } from '../api/client';
import { Head, type WithMenu } from '../parts/Head';
import { Age } from '../parts/time';
import * as actions from '../store/actions';
import { useAsked } from '../store/asked';
import { useStore } from '../store/store';
import { SignInNote } from './SignInNote';

export default function SessionsView({ onMenu }: WithMenu) {
  const person = useStore((state) => state.session.person);
  return (
    <>
      <Head title="Browsers" onMenu={onMenu} note={person === undefined ? '' : `You are ${person}`} />
      <div className="bar" />
      <div className="scroll page">{person === undefined ? <SignInNote /> : <SessionList />}</div>
      <div />
    </>
  );
}

function SessionList() {
  const [ended, setEnded] = useState<readonly string[]>([]);
  const { value, fault } = useAsked<Wire['BrowserSession'][]>('/sessions', ended.length);
  const sessions = (value ?? []).filter((session) => !ended.includes(session.id));
  const others = sessions.filter((session) => !session.current);
  const end = async (wanted: readonly Wire['BrowserSession'][]) => {
    for (const { id } of wanted) {
      if (await actions.signOut(id)) setEnded((before) => [...before, id]);
    }
  };
  if (fault !== undefined) return <p className="empty">{fault}</p>;
  return (
    <>
      <table className="table">
        <thead><tr><th>Browser</th><th>Person</th><th className="num wide">Signed in</th><th className="num">Last used</th><th /></tr></thead>
        <tbody>
          {sessions.map((session) => (
            <tr key={session.id}>
              <td><span className="name">{session.browser}</span> {session.current && <span className="quiet">this browser</span>}</td>
              <td>{session.person}</td>
              <td className="num wide"><Age since={session.created_at} /></td>
              <td className="num"><Age since={session.last_used} /></td>
              <td><button type="button" className="button" onClick={() => void (session.current ? actions.signOutHere() : end([session]))}>Sign out</button></td>
            </tr>
          ))}
        </tbody>
      </table>
      {others.length > 1 && <p><button type="button" className="button" onClick={() => void end(others)}>Sign out all other browsers</button></p>}
      <p className="quiet">A session ends 30 days after its last use. <code>rookery sessions</code> shows the same list.</p>
    </>
  );
}
