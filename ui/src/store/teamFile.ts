// What the check of a workflow file says: its parameters, and what keeps it from being started. The command line prints it, so
// nothing in it is taken for granted.

import { type Payload, text, texts, object } from './event';

export interface FileParam { name: string; value: string | undefined; description: string | undefined }

export function asObject(value: unknown): Payload {
  return value !== null && typeof value === 'object' ? (value as Payload) : {};
}

export function rows(payload: Payload, field: string): Payload[] {
  const value = payload[field];
  return Array.isArray(value) ? value.map(asObject) : [];
}

/** The parameters of the file; those without a value are required. */
export function paramsOf(plan: Payload): FileParam[] {
  return rows(plan, 'params').map((param) => ({ name: text(param, 'name') ?? '', value: text(param, 'value'), description: text(param, 'description') }));
}

/** Why a team of it cannot be started: required parameters and programs that are missing. */
export function blockersOf(plan: Payload): string[] {
  const missing = paramsOf(plan).filter((param) => param.value === undefined).map((param) => `Missing required parameter: ${param.name}`);
  const programs = rows(plan, 'agents').flatMap((agent) => {
    const program = object(agent, 'program');
    const [name] = texts(program, 'argv');
    return name !== undefined && text(program, 'found') === undefined ? [`The program ${name} of ${text(agent, 'name') ?? 'an agent'} is not installed`] : [];
  });
  return [...missing, ...new Set(programs)];
}

const WARNINGS: Record<string, string> = {
  no_kickoff: 'There is no kickoff, so no agent begins', nobody_mentioned: 'The kickoff mentions no agent of the team, so no agent begins',
};

/** What does not keep it from being started, and is worth knowing. */
export function warningsOf(plan: Payload): string[] {
  return rows(plan, 'hindrances').flatMap((hindrance) => WARNINGS[text(hindrance, 'what') ?? ''] ?? []);
}

/** Values of parameters as the command line takes them. */
export function paramWords(values: Readonly<Record<string, string>>): string[] {
  return Object.entries(values).filter(([, value]) => value !== '').map(([name, value]) => `--${name}=${value}`);
}
