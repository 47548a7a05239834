// Channels as the stream brings them.

import { expect, it } from 'vitest';
import type { LogEvent, Payload } from '../src/store/event';
import { listen } from '../src/store/talk';

let seq = 0;
const event = (kind: string, payload: Payload): LogEvent => ({
  seq: (seq += 1), at: 1000 + seq, kind, type: kind, actor: 'a', auth: 'asserted', run: 'run_default', thread: 'thr_default', task: null, cause: null, payload,
});
const said = (message: string, at: number) => event('message.sent', { form: 'entry', message, at, thread: 'thr_default', from: 'a@default', name: 'a', text: message });

it('shows archived entries in their archive, and later ones in the channel', () => {
  const archived = event('channel.archived', { thread: 'thr_default', archive: 'thr_default.1', until: 20, messages: 2 });
  const talk = listen(new Map(), [said('m1', 10), said('m2', 20), archived, said('m3', 30)]);
  const ids = (thread: string) => talk.get(thread)?.map((entry) => `${entry.thread} ${entry.id}`);
  expect(ids('thr_default')).toEqual(['thr_default m3']);
  expect(ids('thr_default.1')).toEqual(['thr_default.1 m1', 'thr_default.1 m2']);
});
