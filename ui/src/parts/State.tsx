import { Glyph, type Shape, taskShape, taskWord, toneOf } from './Glyph';
import type { Task } from '../store/world';

export function TaskState({ task }: { task: Task }) {
  return <span className="state"><Glyph shape={taskShape(task)} />{taskWord(task)}</span>;
}

export function Pill({ shape, children }: { shape: Shape; children: React.ReactNode }) {
  return <span className={`pill ${toneOf(shape)}`}><Glyph shape={shape} small />{children}</span>;
}
