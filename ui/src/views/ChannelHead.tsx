// The top of a channel: how far its work is, and who speaks in it.

import { useMemo } from 'react';
import { Face } from '../parts/Face';
import { Head, type WithMenu } from '../parts/Head';
import { useWorld } from '../store/hooks';
import { instanceOfTask } from '../store/instance';
import { channelTitle, type Entry } from '../store/talk';
import { Progress } from './Progress';

const MOST_FACES = 4;

export function ChannelHead({ channel, onMenu, entries }: { channel: string; entries: readonly Entry[] } & WithMenu) {
  const { tasks } = useWorld();
  const own = useMemo(() => [...tasks.values()].filter((task) => instanceOfTask(task) === channel), [tasks, channel]);
  const speakers = useMemo(() => [...new Set([...entries].reverse().map((entry) => entry.from))], [entries]);
  return (
    <Head title={`# ${channelTitle(channel)}`} note={channel === 'default' ? 'The project' : undefined} onMenu={onMenu}>
      <span className="push" />
      {own.length > 0 && <Progress tasks={own} />}
      <div className="faces" role="img" aria-label={`Spoke here: ${speakers.slice(0, 8).join(', ')}`}>
        {speakers.slice(0, MOST_FACES).map((id) => <Face key={id} id={id} />)}
        {speakers.length > MOST_FACES && <span className="more">+{speakers.length - MOST_FACES}</span>}
      </div>
    </Head>
  );
}
