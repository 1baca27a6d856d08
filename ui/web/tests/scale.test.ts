import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bins, FOLD, Scale } from '../src/scale.ts';
import { numbers } from './check.ts';

test('positions and counts are the inverse of each other', () => {
  const next = numbers(7);
  const scale = new Scale();
  let time = 0;
  for (let at = 0; at < 500; at++) scale.add((time += next(10) === 0 ? 100_000 : next(50)));
  for (let count = 0; count <= 500; count++) assert.equal(scale.countAt(scale.of(count)), count);
  assert.ok(scale.positions.every((position, at) => at === 0 || position > scale.positions[at - 1]));
});

test('long stretches without writes are folded', () => {
  const scale = new Scale();
  [0, 1_000, 3_600_000, 3_600_500].forEach((time) => scale.add(time));
  assert.deepEqual(scale.folds, [2]);
  assert.ok(scale.positions[2] - scale.positions[1] <= FOLD + 100);
});

test('bins count every write of their range once', () => {
  const next = numbers(3);
  const scale = new Scale();
  let time = 0;
  for (let at = 0; at < 300; at++) scale.add((time += next(400)));
  const sum = (list: number[]) => list.reduce((a, b) => a + b, 0);
  for (const width of [1, 7, 100, 1000]) {
    const found = bins(scale, (index) => index % 10 === 0, 0, scale.length(), width);
    assert.deepEqual([found.all.length, sum(found.all), sum(found.outside)], [width, 300, 30]);
  }
  const part = bins(scale, () => false, scale.of(100), scale.of(200), 10);
  assert.equal(sum(part.all), 101);
  assert.deepEqual(bins(new Scale(), () => true, 0, 0, 3).all, [0, 0, 0]);
});
