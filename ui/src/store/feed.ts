// From the daemon's log to the store: a snapshot, then the stream from its position on. A gap is noticed by the numbers and
// filled by reading the log; a position that the daemon no longer knows begins with a new snapshot.

import { type LogEvent, type Placed, read } from './event';

/** How the page stands to the log. */
export type Link =
  | { is: 'connecting' }
  | { is: 'live' }
  /** So many events are known to be missing and are being read. */
  | { is: 'behind'; by: number }
  | { is: 'away'; since: number; why: string };

export interface Snapshot<S> {
  log: string;
  seq: number;
  state: S;
}

/** The daemon, as far as the feed needs it. */
export interface Source<S> {
  snapshot(): Promise<Snapshot<S>>;
  /** Events after a place, oldest first. */
  page(after: number, limit: number): Promise<Placed[]>;
  open(position: string, listener: StreamListener): Stream;
}

export interface StreamListener {
  opened(): void;
  frame(rows: Placed[]): void;
  /** `gone` if the daemon does not know the position any more. */
  closed(gone: boolean): void;
}

export interface Stream {
  close(): void;
}

export interface FeedListener<S> {
  began(snapshot: Snapshot<S>): void;
  arrived(events: LogEvent[]): void;
  linked(link: Link): void;
}

export interface Clock {
  now(): number;
  after(millis: number, run: () => void): void;
}

const PAGE = 1000;
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 10_000;
/** A hole larger than this is not read through: the snapshot is nearer. */
const LARGEST_HOLE = 20_000;

export class Feed<S> {
  private log = '';
  private last = 0;
  private pause = FIRST_PAUSE;
  private stream: Stream | undefined;
  private ended = false;
  /** Counts restarts: what was begun before the last one is dropped. */
  private epoch = 0;
  private filling = false;
  /** What came while a hole was being filled. */
  private kept: Placed[] = [];

  constructor(
    private readonly source: Source<S>,
    private readonly listener: FeedListener<S>,
    private readonly clock: Clock,
  ) {}

  async start(): Promise<void> {
    const { epoch } = this;
    this.listener.linked({ is: 'connecting' });
    try {
      const snapshot = await this.source.snapshot();
      if (this.ended || epoch !== this.epoch) return;
      this.log = snapshot.log;
      this.last = snapshot.seq;
      this.listener.began(snapshot);
      this.follow();
    } catch (error) {
      if (epoch !== this.epoch) return;
      this.away(error instanceof Error ? error.message : 'no answer');
      this.later(() => void this.start());
    }
  }

  stop(): void {
    this.ended = true;
    this.stream?.close();
  }

  /** Begins again at once, such as with another identity. */
  restart(): void {
    this.epoch += 1;
    this.pause = FIRST_PAUSE;
    this.anew();
  }

  private follow(): void {
    const { epoch } = this;
    this.stream = this.source.open(`${this.log}:${this.last}`, {
      opened: () => {
        this.pause = FIRST_PAUSE;
        this.listener.linked({ is: 'live' });
      },
      frame: (rows) => this.frame(rows),
      closed: (gone) => epoch === this.epoch && this.closed(gone),
    });
  }

  private closed(gone: boolean): void {
    if (this.ended) return;
    this.stream = undefined;
    this.kept = [];
    this.away(gone ? 'the log was replaced' : 'the connection is gone');
    this.later(() => (gone ? void this.start() : this.follow()));
  }

  private frame(rows: Placed[]): void {
    const fresh = rows.filter((row) => row.seq > this.last);
    const first = fresh[0];
    if (!first) return;
    if (this.filling) {
      this.kept.push(...fresh);
      return;
    }
    if (first.seq === this.last + 1) return this.take(fresh);
    this.kept = fresh;
    void this.fill(first.seq - 1);
  }

  /** Reads what is missing up to a place, then takes what was kept. */
  private async fill(upto: number): Promise<void> {
    this.filling = true;
    try {
      if (upto - this.last > LARGEST_HOLE) return this.anew();
      while (this.last < upto && !this.ended) {
        this.listener.linked({ is: 'behind', by: upto - this.last });
        const page = await this.source.page(this.last, Math.min(PAGE, upto - this.last));
        if (page[0]?.seq !== this.last + 1) return this.anew();
        this.take(page);
      }
      this.filling = false;
      const kept = this.kept;
      this.kept = [];
      this.frame(kept);
      if (!this.filling) this.listener.linked({ is: 'live' });
    } catch {
      this.anew();
    } finally {
      this.filling = false;
    }
  }

  /** What is missing cannot be had: everything from the beginning. */
  private anew(): void {
    this.kept = [];
    this.filling = false;
    this.stream?.close();
    this.stream = undefined;
    void this.start();
  }

  private take(rows: Placed[]): void {
    const now = this.clock.now();
    const events = rows.map((row) => read(row, now));
    this.last = events.at(-1)?.seq ?? this.last;
    this.listener.arrived(events);
  }

  private away(why: string): void {
    this.listener.linked({ is: 'away', since: this.clock.now(), why });
  }

  private later(run: () => void): void {
    const { pause, epoch } = this;
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
    this.clock.after(pause, () => {
      if (!this.ended && epoch === this.epoch) run();
    });
  }
}
