// The page's half of the browser session. It is kept in the storage of this origin, which knows ports as cookies do not, and
// sent with every call. The other half is a cookie that scripts cannot read.

/** Where the half is kept and read; the browser's storage, or one for tests. */
export interface Keep {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

export class Credential {
  private project: string | undefined;
  private readonly listeners = new Set<() => void>();

  constructor(private readonly keep: Keep) {}

  /** One address may serve different projects over time, each with its own session. */
  serves(project: string | null): void {
    this.project = project ?? this.project;
  }

  isKnown(): boolean {
    return this.project !== undefined;
  }

  get(): string | undefined {
    if (this.project === undefined) return undefined;
    try {
      return this.keep.getItem(this.key()) ?? undefined;
    } catch {
      return undefined;
    }
  }

  set(secret: string): void {
    this.keep.setItem(this.key(), secret);
  }

  /** Forgets a secret that the daemon no longer accepts. A newer one, such as of another tab, stays. */
  reject(secret: string): void {
    if (this.get() !== secret) return;
    this.keep.removeItem(this.key());
    for (const listener of this.listeners) listener();
  }

  onRejected(listener: () => void): void {
    this.listeners.add(listener);
  }

  private key(): string {
    return `rookery.session.${this.project ?? ''}`;
  }
}
