// Why nothing can be done here right now.

import { usePast } from '../store/replay';

export function SignInNote() {
  const past = usePast();
  return (
    <div className="signin" role="note">
      {past
        ? <>This is the past. Press <kbd>L</kbd> to return to now and act.</>
        : <>You are looking on. To act as yourself, run <code>rookery open</code> in the project and follow the address that it prints.</>}
    </div>
  );
}
