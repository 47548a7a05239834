// A sign-in link was opened: exchange its code for a session, and take it out of the address bar before anything else.

import { useEffect, useState } from 'react';
import { ApiError, signIn } from '../api/client';
import { at, go } from '../router';
import { signedIn } from '../store/store';

let started = false;

export function SignInView() {
  const [fault, setFault] = useState<string>();
  useEffect(() => {
    const code = location.hash.slice(1);
    if (started || code === '') return;
    started = true;
    history.replaceState(null, '', at('sign-in'));
    signIn(code)
      .then(signedIn)
      .then(() => go(at(), 'replace'))
      .catch((error: unknown) => setFault(error instanceof ApiError ? `${error.message}. ${error.hint ?? ''}` : 'The daemon does not answer.'));
  }, []);
  return <p className="empty" role="status">{fault ?? 'Signing you in…'}</p>;
}
