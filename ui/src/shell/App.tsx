// The frame: rail, view, inspector, transport; and which view an address is.

import { lazy, Suspense, useEffect, useMemo, useState } from 'react';
import { at, follow, go, type Place, usePlace } from '../router';
import { runOf } from '../store/instance';
import { useMatters } from '../store/matters';
import { usePast } from '../store/replay';
import { useWorld } from '../store/hooks';
import { useStore } from '../store/store';
import { useToasts } from '../store/toasts';
import { clockSeconds } from '../parts/time';
import { AttentionView } from '../views/Attention';
import { ChannelView } from '../views/Channel';
import { SignInView } from '../views/SignIn';
import { SetupView } from '../views/Setup';
import { StreamView } from '../views/Stream';
import { useKeys } from './keys';
import { Rail } from './Rail';
import { useReplayAddress } from './replayAddress';
import { Transport } from './Transport';

const AgentsView = lazy(() => import('../views/Agents'));
const TasksView = lazy(() => import('../views/Tasks'));
const TaskView = lazy(() => import('../views/Task'));
const FilesView = lazy(() => import('../views/Files'));
const RunsView = lazy(() => import('../views/Runs'));
const RunView = lazy(() => import('../views/Run'));
const RunPanel = lazy(() => import('../views/RunPanel'));
const HandoffsView = lazy(() => import('../views/Handoffs'));
const DocumentsView = lazy(() => import('../views/Documents'));
const ArtifactsView = lazy(() => import('../views/Artifacts'));
const CommandMenu = lazy(() => import('./CommandMenu'));
const Help = lazy(() => import('./Help'));
const StartView = lazy(() => import('../views/Start'));
const SessionsView = lazy(() => import('../views/Sessions'));
const EventView = lazy(() => import('../views/Event'));

export type Over = 'none' | 'commands' | 'help' | 'menu';

export function App() {
  const place = usePlace();
  const [over, setOver] = useState<Over>('none');
  const channel = place.parts[0] === 'c' ? place.parts[1] : undefined;
  const inspected = useInspected(place.query.get('panel') === 'off' ? undefined : channel);
  useKeys(setOver);
  useReplayAddress();
  useEffect(() => setOver('none'), [place.href]);
  const classes = ['app', inspected ? 'inspected' : '', over === 'menu' ? 'menu' : ''].filter(Boolean).join(' ');
  return (
    <>
      <a className="skip" href="#main">Skip to the view</a>
      <Replaying />
      <ReadOnly />
      <div className={classes} onClick={(event) => linked(event)}>
        <Rail place={place} onSearch={() => setOver('commands')} />
        <main className="main" id="main" tabIndex={-1} onClick={() => over === 'menu' && setOver('none')}>
          <Suspense fallback={<p className="empty">One moment…</p>}>
            <View place={place} onMenu={() => setOver('menu')} />
          </Suspense>
        </main>
        {inspected && <Suspense fallback={<aside className="inspector" />}><RunPanel run={inspected} /></Suspense>}
        <Transport onHelp={() => setOver('help')} />
      </div>
      <Announced />
      <Suspense fallback={null}>
        {over === 'commands' && <CommandMenu onClose={() => setOver('none')} />}
        {over === 'help' && <Help onClose={() => setOver('none')} />}
      </Suspense>
      <Toasts />
    </>
  );
}

/** Links of the page stay in the page, wherever they are in it. */
function linked(event: React.MouseEvent<HTMLElement>): void {
  const anchor = (event.target as Element).closest('a');
  if (anchor) follow({ ...event, currentTarget: anchor, preventDefault: () => event.preventDefault() } as React.MouseEvent<HTMLAnchorElement>);
}

/** The run beside a channel, if its agents have one. */
function useInspected(channel: string | undefined): string | undefined {
  const { tasks } = useWorld();
  return useMemo(() => (channel === undefined ? undefined : runOf(channel, tasks)), [channel, tasks]);
}

function View({ place, onMenu }: { place: Place; onMenu: () => void }) {
  const [first, second] = place.parts;
  const rest = place.parts.slice(1);
  switch (first) {
    case undefined: return <Home onMenu={onMenu} />;
    case 'sign-in': return <SignInView />;
    case 'attention': return <AttentionView onMenu={onMenu} />;
    case 'stream': return <StreamView onMenu={onMenu} />;
    case 'event': return <EventView seq={Number(second)} onMenu={onMenu} />;
    case 'c': return <ChannelView key={second} channel={second ?? 'default'} onMenu={onMenu} />;
    case 'agents': return <AgentsView chosen={second} onMenu={onMenu} />;
    case 'tasks': return second ? <TaskView id={second} onMenu={onMenu} /> : <TasksView onMenu={onMenu} />;
    case 'runs': return second ? <RunView id={second} onMenu={onMenu} /> : <RunsView onMenu={onMenu} />;
    case 'files': return <FilesView chosen={rest.join('/') || undefined} onMenu={onMenu} />;
    case 'handoffs': return <HandoffsView chosen={second} onMenu={onMenu} />;
    case 'documents': return <DocumentsView instance={second} path={rest.slice(1).join('/') || undefined} onMenu={onMenu} />;
    case 'artifacts': return <ArtifactsView chosen={second} onMenu={onMenu} />;
    case 'start': return <StartView onMenu={onMenu} />;
    case 'sessions': return <SessionsView onMenu={onMenu} />;
    case 'setup': return <SetupView onMenu={onMenu} />;
    default: return <p className="empty">There is no view at this address. <a href={at()}>Home</a></p>;
  }
}

/** Attention if something needs the person, else the channel where something was said last, else how to begin. */
function Home({ onMenu }: { onMenu: () => void }) {
  const ready = useStore((state) => state.ready);
  const isNew = useStore((state) => state.world.agents.size === 0 && state.world.tasks.size === 0);
  const channels = useStore((state) => state.channels);
  const matters = useMatters();
  const link = useStore((state) => state.link);
  const isReadOnly = useStore((state) => state.readOnly !== undefined);
  if (!ready && link.is === 'away' && isReadOnly) return <p className="empty">The log cannot be read: {link.why}. The page tries again by itself.</p>;
  if (!ready && link.is === 'away') return <p className="empty">The daemon does not let this page in: {link.why}. If it wants to know who you are, run <code>rookery open</code> in the project and follow the link that it prints. The page tries again by itself.</p>;
  if (!ready || channels.size === 0) return <p className="empty">One moment…</p>;
  if (matters.length > 0) return <AttentionView onMenu={onMenu} />;
  const [newest] = [...channels.values()].sort((a, b) => b.lastAt - a.lastAt);
  if (isNew && (newest?.messages ?? 0) === 0) return <SetupView onMenu={onMenu} />;
  return <Elsewhere to={at('c', newest?.name ?? 'default')} />;
}

/** The address of what is shown takes the place of the one that was asked for. */
function Elsewhere({ to }: { to: string }) {
  useEffect(() => go(to, 'replace'), [to]);
  return null;
}

/** What needs the person is said aloud; the stream never is. */
function Announced() {
  const matters = useMatters();
  const [first] = matters;
  return <div className="hidden" role="status" aria-live="polite">{first ? `${matters.length} need you. First: ${first.what}` : ''}</div>;
}

function Replaying() {
  const past = usePast();
  if (!past) return null;
  return (
    <div className="replaying" role="status">
      {past.loading === undefined
        ? `Viewing ${clockSeconds(past.time)}, event ${past.at.toLocaleString()}. Nothing can be changed here; L returns to now.`
        : `Reading the log up to event ${past.at.toLocaleString()}: ${past.loading.toLocaleString()} so far`}
    </div>
  );
}

/** The store takes no writes: why, and what to do. */
function ReadOnly() {
  const problem = useStore((state) => state.readOnly);
  if (!problem) return null;
  return (
    <div className="readonly" role="alert">
      <b>Read-only.</b> {sentence(problem.message)} {problem.hint && sentence(problem.hint)}
    </div>
  );
}

/** A message of the daemon as a sentence, with what stands between backticks as code. */
function sentence(message: string) {
  const text = `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
  return text.split('`').map((part, at) => (at % 2 === 1 ? <code key={at}>{part}</code> : part));
}

function Toasts() {
  const toasts = useToasts();
  return (
    <div className="toasts" role="status" aria-live="polite">
      {toasts.map((toast) => <div key={toast.id} className={toast.tone === 'bad' ? 'toast bad' : 'toast'}>{toast.text}</div>)}
    </div>
  );
}
