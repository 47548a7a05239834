// Where in the log the page looks is part of the address, so that it can be passed on and outlives a reload.

import { useEffect, useRef } from 'react';
import { go, usePlace, withQuery } from '../router';
import { lookAt, usePast } from '../store/replay';
import { useStore } from '../store/store';

const NAME = 'at';

export function useReplayAddress(): void {
  const place = usePlace();
  const past = usePast();
  const ready = useStore((state) => state.ready);
  const begun = useRef(false);
  const wanted = place.query.get(NAME) ?? undefined;
  const shown = past === undefined ? undefined : String(past.at);
  useEffect(() => {
    if (!ready) return;
    if (!begun.current) {
      begun.current = true;
      if (wanted !== undefined) void lookAt(Number(wanted));
    } else if (wanted !== shown) go(withQuery(place, { [NAME]: shown }), 'replace');
  }, [ready, wanted, shown, place]);
}
