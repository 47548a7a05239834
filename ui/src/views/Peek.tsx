// A closer look at a matter without leaving the list: who it is about, and what happened to it last.

import { useMemo } from 'react';
import type { Matter } from '../store/attention';
import { pathOf } from '../store/describe';
import { type LogEvent, text } from '../store/event';
import { useStore } from '../store/store';
import { Happened } from './Happened';

const MOST = 6;

export function Peek({ matter }: { matter: Matter }) {
  const events = useStore((state) => state.events);
  const own = useMemo(() => events.filter((event) => isAbout(event, matter)).slice(-MOST), [events, matter]);
  return <div className="peek">{own.length > 0 ? <Happened events={own} /> : <p className="quiet">Nothing about it is among the newest events.</p>}</div>;
}

function isAbout(event: LogEvent, matter: Matter): boolean {
  if (matter.task) return event.task === matter.task || text(event.payload, 'task') === matter.task;
  if (matter.path) return pathOf(event.payload) === matter.path;
  if (matter.agent) return event.actor === matter.agent;
  return event.seq === matter.seq;
}
