import assert from 'node:assert/strict';
import test from 'node:test';
import { markPosition, marksNear, markTime, readMarks } from '../src/marks.ts';
import { Model } from '../src/model.ts';
import { Scale } from '../src/scale.ts';

test('marks are read in the order of their revisions, and lines of other forms are skipped', () => {
  const lines = [{ kind: 'fault', r: 9, text: 'kill' }, { kind: 'moon', r: 1, text: 'x' }, { kind: 'constructor', r: 1, text: 'x' }, { kind: 'tag', r: '4', text: 'x' }, { kind: 'test', r: 3, text: 'begin' }];
  assert.deepEqual(readMarks(lines), [{ kind: 'test', r: 3, text: 'begin' }, { kind: 'fault', r: 9, text: 'kill' }]);
});

test('a mark is after the newest write up to its revision', () => {
  const model = new Model(10);
  const scale = new Scale();
  for (const [r, seconds] of [[12, 100], [15, 101]]) {
    model.add({ r, t: seconds * 1e6, o: [] }, true);
    scale.add(seconds * 1000);
  }
  const mark = (r: number) => ({ kind: 'fault' as const, r, text: '' });
  assert.equal(markPosition(mark(13), model, scale), scale.of(1));
  assert.equal(markPosition(mark(99), model, scale), scale.of(2));
  assert.equal(markPosition(mark(11), model, scale), 0);
  assert.deepEqual([markTime(mark(14), model), markTime(mark(11), model)], [100_000, null]);
  assert.deepEqual(marksNear([mark(12), mark(15)], scale.of(2), 5, model, scale), [mark(15)]);
});
