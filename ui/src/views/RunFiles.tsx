// The files of a run: those that its tasks named, and those that its agents hold for them.

import { useMemo } from 'react';
import { fileShape, fileWord, Glyph } from '../parts/Glyph';
import { at } from '../router';
import { useNames, useWorld } from '../store/hooks';
import type { Task } from '../store/world';

export function RunFiles({ tasks }: { tasks: readonly Task[] }) {
  const { files } = useWorld();
  const names = useNames();
  const rows = useMemo(() => {
    const ids = new Set(tasks.map((task) => task.id));
    const named = new Map<string, string>(tasks.flatMap((task) => task.resources.map((path): [string, string] => [path, task.id])));
    for (const file of files.values()) if (file.claim?.task && ids.has(file.claim.task)) named.set(file.path, file.claim.task);
    return [...named].sort(([a], [b]) => (a < b ? -1 : 1));
  }, [files, tasks]);
  if (rows.length === 0) return <p className="empty">No file belongs to a task of this run.</p>;
  return (
    <div className="scroll page">
      <table className="table">
        <thead><tr><th>File</th><th>State</th><th>Held by</th><th>Task</th></tr></thead>
        <tbody>
          {rows.map(([path, task]) => {
            const file = files.get(path);
            return (
              <tr key={path}>
                <td><a className="mono name" href={at('files', ...path.split('/').filter(Boolean))}>{path}</a></td>
                <td>{file ? <span className="state"><Glyph shape={fileShape(file)} />{fileWord(file)}</span> : <span className="quiet">untouched</span>}</td>
                <td>{file?.claim?.holder ?? <span className="quiet">nobody</span>}</td>
                <td><a href={at('tasks', task)}>{names.task(task)}</a></td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
