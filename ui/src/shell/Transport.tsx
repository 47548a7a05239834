// The footer: how dense the log is over time, where in it the page looks, and how the team is.

import { Glyph, agentWord, type Shape } from '../parts/Glyph';
import { Icon } from '../parts/Icon';
import { clockSeconds, useNow } from '../parts/time';
import { live, play, step, usePast } from '../store/replay';
import { useRoster } from '../store/roster';
import { useStore } from '../store/store';
import { Scrub } from './Scrub';

export function Transport({ onHelp }: { onHelp: () => void }) {
  const head = useStore((state) => state.head);
  const past = usePast();
  const at = past?.at ?? head;
  return (
    <footer className="transport" aria-label="Replay and state">
      <div className="group">
        <button type="button" aria-label="Previous event" onClick={() => step(-1)}><Icon name="previous" /></button>
        <button type="button" aria-label={past?.playing ? 'Stop playing' : 'Play the log'} onClick={play}><Icon name={past?.playing ? 'pause' : 'play'} /></button>
        <button type="button" aria-label="Next event" onClick={() => step(1)}><Icon name="next" /></button>
      </div>
      <Scrub />
      <Standing />
      <span className="num quiet wide">Event {at.toLocaleString()}</span>
      <span className="rule wide" />
      <Counts />
      <button type="button" className="wide" onClick={onHelp} aria-label="Keys"><kbd>?</kbd></button>
    </footer>
  );
}

function Standing() {
  const link = useStore((state) => state.link);
  const past = usePast();
  const now = useNow();
  if (past) return <><span className="num">{clockSeconds(past.time)}</span><button type="button" className="live past" onClick={live}>Past, return (L)</button></>;
  const words = { connecting: 'Connecting', live: 'Live', behind: link.is === 'behind' ? `${link.by.toLocaleString()} behind` : '', away: 'Reconnecting' }[link.is];
  const tone = { connecting: ' behind', live: '', behind: ' behind', away: ' away' }[link.is];
  return (
    <>
      <span className="num wide">{clockSeconds(now)}</span>
      <span className={`live${tone}`} role="status"><i className={`dot${tone}`} />{words}</span>
    </>
  );
}

const COUNTED: Shape[] = ['working', 'silent', 'waiting', 'blocked', 'stale', 'paused', 'idle'];

function Counts() {
  const posts = useRoster();
  const counted = COUNTED.map((shape) => ({ shape, count: posts.filter((post) => post.shape === shape).length }));
  return (
    <div className="counts num wide">
      {counted.filter(({ count }) => count > 0).map(({ shape, count }) => (
        <span key={shape} title={agentWord(shape)}><Glyph shape={shape} label={agentWord(shape)} />{count}</span>
      ))}
    </div>
  );
}
