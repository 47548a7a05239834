// Why nothing can be done here right now.

import { usePast } from '../store/replay';
import { useStore } from '../store/store';

export function SignInNote() {
  const past = usePast();
  const ended = useStore((state) => state.session.ended);
  return (
    <div className="signin" role="note">
      {past
        ? <>This is the past. Press <kbd>L</kbd> to return to now and act.</>
        : <>{ended ? 'You are signed out.' : 'You are looking on.'} To act as yourself, run <code>rookery open</code> in the project and follow the link that it prints.</>}
    </div>
  );
}
