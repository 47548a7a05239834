// A real daemon for a test: its own project folder, its own port, ended with the test.

import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

const PROGRAM = process.env.ROOKERY_BIN ?? resolve(import.meta.dirname, '../../target/debug/rookery');

export class Daemon {
  private constructor(
    readonly folder: string,
    readonly url: string,
    private process: ChildProcess,
  ) {}

  /** `settings` are what its rookery.toml says. */
  static async start(settings: string): Promise<Daemon> {
    const above = mkdtempSync(join(tmpdir(), 'rookery-ui-'));
    const folder = join(above, 'payments-api');
    mkdirSync(folder);
    if (settings) writeFileSync(join(folder, 'rookery.toml'), settings);
    const { url, process } = await begin(folder, 0);
    return new Daemon(folder, url, process);
  }

  /** The sample project, after its team of scripted agents has done its work; served anew, so that it ends with the test. */
  static async demo(): Promise<Daemon> {
    const above = mkdtempSync(join(tmpdir(), 'rookery-ui-'));
    const folder = join(above, 'shop');
    await command('demo', folder);
    await command('--dir', folder, 'down');
    const { url, process } = await begin(folder, 0);
    return new Daemon(folder, url, process);
  }

  /** Ends it as a crash does, and starts it again at the same address. */
  async crash(): Promise<void> {
    const gone = new Promise((done) => this.process.once('exit', done));
    this.process.kill('SIGKILL');
    await gone;
    const { process } = await begin(this.folder, Number(new URL(this.url).port));
    this.process = process;
  }

  async stop(): Promise<void> {
    const gone = new Promise((done) => this.process.once('exit', done));
    this.process.kill('SIGTERM');
    await gone;
    rmSync(dirname(this.folder), { recursive: true, force: true });
  }

  /** A call as an agent says it is, or with the project's key as a person. */
  async call<T = Record<string, unknown>>(method: string, path: string, body?: unknown, as?: string): Promise<T> {
    const headers: Record<string, string> = {};
    if (body !== undefined) headers['content-type'] = 'application/json';
    if (as === 'person') headers['authorization'] = `Bearer ${this.key()}`;
    else if (as) headers['x-agent-id'] = as;
    const response = await fetch(this.url + path, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return (text === '' ? {} : JSON.parse(text)) as T;
  }

  /** Uploads a text, and tells its hash. */
  async upload(text: string, as?: 'person'): Promise<string> {
    const headers = { 'content-type': 'application/octet-stream', ...(as ? { authorization: `Bearer ${this.key()}` } : {}) };
    const response = await fetch(`${this.url}/clutch/v0/artifacts`, { method: 'POST', headers, body: text });
    const { sha256 } = (await response.json()) as { sha256: string };
    return sha256;
  }

  /** An address that signs a person in. */
  async launch(person = 'anna'): Promise<string> {
    const { path } = await this.call<{ path: string }>('POST', '/session/sign-in-links', { person }, 'person');
    return this.url + path;
  }

  private key(): string {
    return readFileSync(join(this.folder, '.rookery/person.key'), 'utf8').trim();
  }
}

/** Runs a command of the program to its end. */
function command(...args: string[]): Promise<void> {
  return new Promise((done, failed) => {
    execFile(PROGRAM, args, (error, _, said) => (error ? failed(new Error(`${args.join(' ')}: ${said}`)) : done()));
  });
}

async function begin(folder: string, port: number): Promise<{ url: string; process: ChildProcess }> {
  const child = spawn(PROGRAM, ['--dir', folder, 'up', '--port', String(port)], { stdio: ['ignore', 'pipe', 'pipe'] });
  const url = await new Promise<string>((found, failed) => {
    let said = '';
    const listen = (chunk: Buffer) => {
      said += chunk.toString();
      const match = /listening on (http:\/\/\S+)/.exec(said);
      if (match?.[1]) found(match[1]);
    };
    child.stdout.on('data', listen);
    child.stderr.on('data', listen);
    child.once('exit', (code) => failed(new Error(`the daemon ended with ${code}: ${said}`)));
    child.once('error', failed);
  });
  return { url, process: child };
}
