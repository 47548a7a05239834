// A closer look at a matter without leaving the list: its own events, whenever they happened.

import type { Matter } from '../store/attention';
import { useAgentHistory, useEvent, useFileHistory, useTaskHistory } from '../store/history';
import { Happened } from './Happened';

const MOST = 6;

export function Peek({ matter }: { matter: Matter }) {
  const { task, path, agent, seq } = matter;
  const ofTask = useTaskHistory(task ?? '');
  const ofFile = useFileHistory(task === undefined ? (path ?? '') : '');
  const ofAgent = useAgentHistory(task === undefined && path === undefined ? (agent ?? '') : '');
  const ofMessage = useEvent(seq);
  const events = [ofTask, ofFile, ofAgent, ofMessage].find((found) => found.length > 0) ?? [];
  return <div className="peek">{events.length > 0 ? <Happened events={events.slice(-MOST)} /> : <p className="quiet">Reading the log…</p>}</div>;
}
