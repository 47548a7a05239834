import { describe, expect, it } from 'vitest';
import { Credential } from '../src/api/credential';

function storage() {
  const kept = new Map<string, string>();
  return {
    kept,
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
    removeItem: (key: string) => void kept.delete(key),
  };
}

describe('the credential of a page', () => {
  it('is kept by project', () => {
    const credential = new Credential(storage());
    expect(credential.get()).toBeUndefined();
    credential.serves('one');
    credential.set('secret');
    credential.serves('two');
    expect(credential.get()).toBeUndefined();
    credential.serves('one');
    expect(credential.get()).toBe('secret');
    credential.serves(null);
    expect(credential.get()).toBe('secret');
  });

  it('is forgotten when it is rejected, and listeners are told once', () => {
    const credential = new Credential(storage());
    let told = 0;
    credential.onRejected(() => { told += 1; });
    credential.serves('one');
    credential.set('old');
    credential.reject('old');
    credential.reject('old');
    expect([credential.get(), told]).toEqual([undefined, 1]);
  });

  it('stays if an older one is rejected', () => {
    const credential = new Credential(storage());
    credential.serves('one');
    credential.set('new');
    credential.reject('old');
    expect(credential.get()).toBe('new');
  });

  it('is none where the storage is closed', () => {
    const closed = { ...storage(), getItem: () => { throw new Error('denied'); } };
    const credential = new Credential(closed);
    credential.serves('one');
    expect(credential.get()).toBeUndefined();
  });
});
