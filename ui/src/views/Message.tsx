// A message, an event between messages, and a burst of events of one agent.

import { Face } from '../parts/Face';
import { agentShape } from '../parts/Glyph';
import { Icon } from '../parts/Icon';
import { RichText } from '../parts/RichText';
import { Pill } from '../parts/State';
import { clock, full, lasted, useMoment } from '../parts/time';
import { at } from '../router';
import { summary } from '../store/bursts';
import { describe, iconOf, isDeed } from '../store/describe';
import type { LogEvent } from '../store/event';
import { useNames, useWorld } from '../store/hooks';
import { EXACT, shownId } from '../store/mentions';
import { bare, type Entry, isFor } from '../store/talk';
import type { Task } from '../store/world';
import { ClaimCard } from './ClaimCard';
import { ReviewCard } from './ReviewCard';

interface Props { entry: Entry; me: string | undefined; replies: readonly Entry[]; channel: string; chosen: boolean; inThread: boolean; review: Task | undefined }

export function Message({ entry, me, replies, channel, chosen, inThread, review }: Props) {
  const mine = me !== undefined && isFor(entry, me);
  const classes = ['message', mine ? 'hit' : '', chosen ? 'chosen' : ''].filter(Boolean).join(' ');
  const author = entry.from.replace(/^person:/, '');
  return (
    <article className={classes} aria-label={`${author}, ${clock(entry.at)}`}>
      <Face id={entry.from} size="large" />
      <div>
        <div className="by">
          <b title={entry.from}>{entry.from === `person:${me}` ? 'you' : entry.name.startsWith(EXACT) ? entry.name : bare(author)}</b>
          <a className="when num" href={at('event', entry.seq)} title={`${full(entry.at)}, event ${entry.seq}`}>{clock(entry.at)}</a>
          <Standing agent={entry.from} />
          {entry.priority === 'high' && <span className="pill idle">urgent</span>}
          {!inThread && <a className="when reply" href={`${at('c', channel)}?thread=${encodeURIComponent(entry.id)}`}>Reply</a>}
        </div>
        <RichText text={entry.text} me={me} />
        {entry.to.length > 0 && entry.from === `person:${me}` && <Reached entry={entry} />}
        <ClaimCard entry={entry} />
        {review && <ReviewCard task={review} />}
        {replies.length > 0 && <Replies replies={replies} href={`${at('c', channel)}?thread=${encodeURIComponent(entry.id)}`} />}
      </div>
    </article>
  );
}

/** Whom a message of one's own went to, and who of them has taken note. */
function Reached({ entry }: { entry: Entry }) {
  const noted = entry.to.filter((agent) => entry.acked.includes(agent));
  return <p className="reached">To {entry.to.map(bare).join(', ')}{noted.length > 0 && `, taken note of by ${noted.length === entry.to.length ? 'all' : noted.map(bare).join(', ')}`}</p>;
}

/** What keeps the author right now, if something does. */
function Standing({ agent }: { agent: string }) {
  const row = useWorld().agents.get(agent);
  if (!row) return null;
  const shape = agentShape(row);
  if (shape === 'blocked') return <Pill shape="blocked">Blocked</Pill>;
  if (shape === 'waiting') return <Pill shape="waiting">Waits for review</Pill>;
  if (shape === 'offline') return <Pill shape="offline">Offline</Pill>;
  return null;
}

function Replies({ replies, href }: { replies: readonly Entry[]; href: string }) {
  const now = useMoment();
  const last = replies.at(-1);
  const authors = [...new Set(replies.map((reply) => reply.from))].slice(0, 3);
  return (
    <a className="replies" href={href}>
      <span className="faces">{authors.map((id) => <Face key={id} id={id} size="tiny" />)}</span>
      <b>{replies.length} {replies.length === 1 ? 'reply' : 'replies'}</b>
      {last && `last ${lasted(now - last.at)} ago`}
    </a>
  );
}

export function EventLine({ event, chosen = false }: { event: LogEvent; chosen?: boolean }) {
  const names = useNames();
  const { agents } = useWorld();
  const routed = event.kind.startsWith('routing.');
  return (
    <div className={chosen ? 'line chosen' : 'line'}>
      <span><Icon name={iconOf(event)} /></span>
      <p>
        <span className="cut">{isDeed(event) && <b title={event.actor}>{shownId(event.actor, agents)} </b>}{describe(event, names)}</span>
        {routed && event.task && <a href={at('tasks', event.task)}>Why</a>}
        <a className="when num" href={at('event', event.seq)} title={full(event.at)}>{clock(event.at)}</a>
      </p>
    </div>
  );
}

interface BurstProps { agent: string; events: LogEvent[]; at: number; chosen: boolean; open: boolean; onToggle: () => void }

export function Burst({ agent, events, at: when, chosen, open, onToggle }: BurstProps) {
  const [only] = events;
  const { agents } = useWorld();
  if (events.length === 1 && only) return <EventLine event={only} chosen={chosen} />;
  return (
    <>
      <div className={chosen ? 'line chosen' : 'line'}>
        <span><Icon name="tool" /></span>
        <p>
          <button type="button" className="cut" aria-expanded={open} onClick={onToggle}>
            <b title={agent}>{shownId(agent, agents)}</b> {summary(events)} <Icon name="chevron" small />
          </button>
          <span className="when num" title={full(when)}>{clock(when)}</span>
        </p>
      </div>
      {open && events.map((event) => <EventLine key={event.seq} event={event} />)}
    </>
  );
}
