import assert from 'node:assert/strict';
import { test } from 'node:test';
import { differing } from '../src/compare.ts';
import { Model, rowKey } from '../src/model.ts';
import { line, numbers, pod } from './check.ts';

test('two revisions differ in what was added, removed and changed between', () => {
  const model = new Model(1);
  model.addRow(pod('old'));
  model.add(line(2, 'created', pod('short')), true);
  model.add(line(3, 'deleted', pod('short')), true);
  model.add(line(4, 'created', pod('new')), true);
  model.add(line(5, 'updated', pod('new', { t: 'x' })), true);
  model.add(line(6, 'deleted', pod('old')), true);
  model.add(line(7, 'created', pod('old', { u: 'another' })), true);
  const found = (from: number, to: number) => differing(model, from, to).map(({ key, difference, writes }) => `${difference} ${key.split('/')[2]} ${writes.length}`);
  assert.deepEqual(found(0, 6), ['added new 2', 'added old 2']);
  assert.deepEqual(found(0, 5), ['added new 2', 'removed old 1']);
  assert.deepEqual(found(3, 4), ['changed new 1']);
  assert.deepEqual(found(4, 3), found(3, 4));
  assert.deepEqual(found(2, 2), []);
});

test('applying the differences to the first state gives the second', () => {
  for (let seed = 1; seed < 20; seed++) {
    const next = numbers(seed);
    const model = new Model(1);
    const alive = new Set<string>();
    for (let r = 2; r < 60; r++) {
      const name = `p${next(6)}`;
      const isDeleted = alive.has(name) && next(3) === 0;
      model.add(line(r, isDeleted ? 'deleted' : alive.has(name) ? 'updated' : 'created', pod(name, { t: String(r) })), true);
      if (isDeleted) alive.delete(name);
      else alive.add(name);
    }
    const [from, to] = [next(30), 30 + next(28)];
    model.seek(from);
    const rows = new Map(model.rows);
    for (const { key, after } of differing(model, from, to)) {
      if (after) rows.set(rowKey(after), after);
      else rows.delete(key);
    }
    model.seek(to);
    assert.deepEqual(new Map([...rows].sort()), new Map([...model.rows].sort()));
  }
});
