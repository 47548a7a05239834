// Two texts, line by line.

import { difference } from '../layout/difference';

export function Diff({ before, after }: { before: string; after: string }) {
  const lines = difference(before, after);
  return (
    <div className="diff" role="group" aria-label="Difference" tabIndex={0}>
      {lines.map((line, index) => (
        <div key={index} className={line.is}>{{ same: '  ', added: '+ ', removed: '− ' }[line.is]}{line.text}</div>
      ))}
    </div>
  );
}
