// What differs between two revisions of the window: the objects that were added, removed or changed. Pure.

import type { Model, Row } from './model.ts';

export type Difference = 'added' | 'removed' | 'changed';

export interface Differing {
  key: string;
  difference: Difference;
  /** Rows at the two revisions. */
  before: Row | null;
  after: Row | null;
  /** Indexes of the writes between, oldest first. */
  writes: number[];
}

/** The objects that differ between the states after two numbers of writes, sorted by key. Those that were made and removed between are left out. */
export function differing(model: Model, from: number, to: number): Differing[] {
  const [low, high] = [Math.min(from, to), Math.max(from, to)];
  const found = new Map<string, Differing>();
  for (let index = low; index < high; index++) {
    for (const touch of model.writes[index].touches) {
      const known = found.get(touch.key);
      if (known) {
        known.after = touch.after;
        known.writes.push(index);
      } else {
        found.set(touch.key, { key: touch.key, difference: 'changed', before: touch.before, after: touch.after, writes: [index] });
      }
    }
  }
  const all = [...found.values()].filter(({ before, after }) => before || after);
  for (const one of all) {
    const isOther = one.before && one.after && one.before.u !== one.after.u;
    one.difference = !one.before || isOther ? 'added' : !one.after ? 'removed' : 'changed';
  }
  return all.sort((a, b) => (a.key < b.key ? -1 : 1));
}
