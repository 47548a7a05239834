import { describe, expect, it } from 'vitest';
import { blockersOf, paramsOf, paramWords, warningsOf } from '../src/store/teamFile';

const plan = {
  params: [{ name: 'task', value: null, description: 'What to build' }, { name: 'runs', value: '3' }],
  agents: [
    { name: 'ada', program: { argv: ['claude', '-p'], found: null } }, { name: 'ben', program: { argv: ['codex'], found: '/usr/bin/codex' } },
    { name: 'eve', backend: 'mock' },
  ],
  hindrances: [{ what: 'missing_param', name: 'task' }, { what: 'no_kickoff' }],
};

describe('the check of a workflow file', () => {
  it('names required parameters and programs that are missing', () => {
    expect(blockersOf(plan)).toEqual(['Missing required parameter: task', 'The program claude of ada is not installed']);
    expect(blockersOf({ ...plan, params: [{ name: 'task', value: 'x' }], agents: [] })).toEqual([]);
    expect(blockersOf({})).toEqual([]);
  });

  it('names what is only worth knowing apart from that', () => {
    expect(warningsOf(plan)).toEqual(['There is no kickoff, so no agent begins']);
  });

  it('has the parameters, and writes their values as the command line takes them', () => {
    expect(paramsOf(plan).map(({ name, value }) => `${name} ${value}`)).toEqual(['task undefined', 'runs 3']);
    expect(paramWords({ task: 'a shop, "quickly"', runs: '', dry_run: 'true' })).toEqual(['--task=a shop, "quickly"', '--dry_run=true']);
  });
});
