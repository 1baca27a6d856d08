// What the tests share: a generator that always gives the same numbers, and rows.

import type { ChangeLine, Row } from '../src/model.ts';

/** Numbers from 0 up to a bound; the same ones for the same seed. */
export function numbers(seed: number): (bound: number) => number {
  let state = seed >>> 0 || 1;
  return (bound) => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % bound;
  };
}

export const pod = (name: string, more: Partial<Row> = {}): Row => ({ k: 'pods', n: 'default', m: name, u: `uid-${name}`, s: 'ready', ...more });

export const line = (r: number, effect: 'created' | 'updated' | 'deleted', row: Row, more: Partial<ChangeLine> = {}): ChangeLine => ({
  r,
  t: r * 1_000_000,
  w: ['jane', 'kubectl/v1', 'patch'],
  o: [[row.k, row.n ?? '', row.m, effect, effect === 'deleted' ? null : row]],
  ...more,
});
