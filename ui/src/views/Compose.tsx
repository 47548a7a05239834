// Writing to a channel. Before it is sent, the person sees who will find it in the inbox and how urgently.

import { type RefObject, useEffect, useMemo, useState } from 'react';
import { flushSync } from 'react-dom';
import { ApiError } from '../api/client';
import { agentShape, agentWord, Glyph } from '../parts/Glyph';
import * as actions from '../store/actions';
import { at, usePlace } from '../router';
import { useDraft } from '../shell/draft';
import { useMayAct, useWorld } from '../store/hooks';
import { EXACT, mentionOf, reach, reachWords, typing } from '../store/mentions';
import { useStore } from '../store/store';
import { ANY_PERSON, bare, channelTitle, type Entry } from '../store/talk';
import { SignInNote } from './SignInNote';

const MOST = 8;

/** The people that can be mentioned: those that the daemon knows, and those who have spoken. */
function usePeople(): ReadonlySet<string> {
  const talk = useStore((state) => state.talk);
  const known = useStore((state) => state.session.people);
  return useMemo(() => {
    const spoke = [...talk.values()].flat().filter((entry) => entry.from.startsWith('person:')).map((entry) => entry.from.slice(7));
    return new Set([...known, ...spoke, ANY_PERSON]);
  }, [talk, known]);
}

interface Props {
  channel: string;
  /** The entries of the thread that is replied in, the one that began it first; none in the channel itself. */
  thread: readonly Entry[];
  field: RefObject<HTMLTextAreaElement | null>;
  onSent: () => void;
}

export function Compose({ channel, thread, field, onSent }: Props) {
  const [replyTo] = thread;
  const me = useStore((state) => state.session.person);
  const mayAct = useMayAct();
  const { agents } = useWorld();
  const people = usePeople();
  const place = usePlace();
  const archiveOf = useStore((state) => state.channels.get(channel)?.archiveOf);
  const [text, setText] = useDraft(`${channel} ${replyTo?.id ?? ''}`, place.query.get('say') ?? '');
  const [caret, setCaret] = useState(0);
  const [chosen, setChosen] = useState(0);
  const [closed, setClosed] = useState(false);
  const [fault, setFault] = useState<string>();
  const [sending, setSending] = useState(false);
  const begun = place.query.has('say');
  useEffect(() => {
    const written = field.current;
    if (!begun || !written) return;
    written.focus();
    written.setSelectionRange(written.value.length, written.value.length);
  }, [begun, mayAct, field]);
  const typed = typing(text, caret);
  const suggested = useMemo(() => {
    if (!typed || closed) return [];
    const start = typed.start.toLowerCase();
    return [...agents.values()]
      .filter((agent) => agent.id.toLowerCase().startsWith(start) || bare(agent.id).toLowerCase().startsWith(start))
      .map((agent) => ({ agent, name: mentionOf(agent.id, channel, agents) }))
      .sort((a, b) => Number(a.name.startsWith(EXACT)) - Number(b.name.startsWith(EXACT)))
      .slice(0, MOST);
  }, [agents, typed?.start, closed, channel]);
  if (archiveOf !== undefined) return <div className="signin" role="note">What an earlier run left in <a className="link" href={at('c', archiveOf)}>#{channelTitle(archiveOf)}</a>. Write there.</div>;
  if (!mayAct) return <SignInNote />;

  const insert = (name: string) => {
    if (!typed) return;
    const next = `${text.slice(0, typed.from)}@${name} ${text.slice(caret)}`;
    const place = typed.from + name.length + 2;
    // At once: a key that is pressed before the caret stands behind the name would be typed elsewhere.
    flushSync(() => {
      setText(next);
      setCaret(place);
    });
    field.current?.setSelectionRange(place, place);
  };
  const submit = async () => {
    if (text.trim() === '' || sending) return;
    setSending(true);
    try {
      await actions.say(channel, text, replyTo?.id);
      setText('');
      setFault(undefined);
      onSent();
    } catch (error) {
      setFault(error instanceof ApiError ? `${error.message}${error.hint ? ` (${error.hint})` : ''}` : 'It was not sent: the daemon does not answer.');
    } finally {
      setSending(false);
    }
  };
  const keys = (event: React.KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (suggested.length > 0) {
      if (by !== undefined) {
        event.preventDefault();
        return setChosen((before) => (before + by + suggested.length) % suggested.length);
      }
      if (event.key === 'Tab' || event.key === 'Enter') {
        event.preventDefault();
        return insert(suggested[Math.min(chosen, suggested.length - 1)]?.name ?? '');
      }
      if (event.key === 'Escape') return setClosed(true);
    }
    if (event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      void submit();
    }
    if (event.key === 'Escape') field.current?.blur();
  };
  const told = reach(text, channel, agents, people, thread, me);
  return (
    <form
      className="compose" onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      {suggested.length > 0 && (
        <ul className="suggest" role="listbox" id="mentions" aria-label="Agents">
          {suggested.map(({ agent, name }, index) => (
            <li key={agent.id} id={`mention-${index}`} title={agent.id} role="option" aria-selected={index === Math.min(chosen, suggested.length - 1)} onMouseDown={(event) => {
              event.preventDefault();
              insert(name);
            }}>
              <Glyph shape={agentShape(agent)} />{name}<span className="push quiet">{agentWord(agentShape(agent))}</span>
            </li>
          ))}
        </ul>
      )}
      <textarea
        ref={field} value={text} rows={1} aria-label={`Message #${channelTitle(channel)}`}
        placeholder={replyTo ? `Reply to ${replyTo.name}` : `Message #${channelTitle(channel)}, @ reaches an agent`}
        role="combobox" aria-expanded={suggested.length > 0} aria-controls="mentions" aria-autocomplete="list"
        aria-activedescendant={suggested.length > 0 ? `mention-${Math.min(chosen, suggested.length - 1)}` : undefined}
        onChange={(event) => {
          setText(event.target.value);
          setCaret(event.target.selectionStart);
          setClosed(false);
          setChosen(0);
        }}
        onSelect={(event) => setCaret(event.currentTarget.selectionStart)}
        onKeyDown={keys}
      />
      <footer>
        {fault === undefined ? <span className="cut" aria-live="polite">{reachWords(told)}</span> : <span className="oops" role="alert">{fault}</span>}
        <span className="push hint"><kbd>⏎</kbd> send</span>
        <button type="submit" className="button main-action" disabled={text.trim() === '' || sending}>Send</button>
      </footer>
    </form>
  );
}
