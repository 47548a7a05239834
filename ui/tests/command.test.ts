import { describe, expect, it } from 'vitest';
import { type Command, eventNumber, ranked } from '../src/shell/command';

const row = (title: string, hint = '', more: Partial<Command> = {}): Command => ({ key: title, icon: 'tool', title, hint, run: () => undefined, ...more });
const said = (text: string): Command => row(text, 'planner in #general', { said: true });
const titles = (rows: Command[], wanted: string) => ranked(rows, wanted).map(({ title }) => title);

describe('the command menu', () => {
  it('puts the title itself first, then those that begin with the text, then those with such a word', () => {
    const rows = [row('Write the discoupon code'), row('Review: Coupon validation'), row('Coupon validation'), row('coupon')];
    expect(titles(rows, 'coupon')).toEqual(['coupon', 'Coupon validation', 'Review: Coupon validation', 'Write the discoupon code']);
  });

  it('puts places and actions before messages that begin with the text', () => {
    const rows = [said('coupon codes are checked twice'), row('Approve: Coupon validation'), row('src/coupon.ts'), said('the coupon is wrong')];
    expect(titles(rows, 'coupon')).toEqual(['Approve: Coupon validation', 'src/coupon.ts', 'coupon codes are checked twice', 'the coupon is wrong']);
  });

  it('finds an action by its words without the signs between them', () => {
    expect(titles([said('retry end to end please'), row('Retry: End-to-end')], 'retry end-to-end')).toEqual(['Retry: End-to-end', 'retry end to end please']);
  });

  it('finds nothing where the letters are not in order', () => {
    expect(titles([row('Attention', 'g a'), said('anything at all')], 'zzqqxx')).toEqual([]);
  });

  it('knows the number of an event', () => {
    expect([eventNumber('12'), eventNumber(' #31207 '), eventNumber('12 tasks')]).toEqual([12, 31207, undefined]);
  });
});
