import assert from 'node:assert/strict';
import { test } from 'node:test';
import { arrows, laneOf, lanes } from '../src/lanes.ts';
import { Model, type Row } from '../src/model.ts';
import { line, pod } from './check.ts';

function example(): Model {
  const model = new Model(1);
  const web: Row = { k: 'deployments.apps', n: 'default', m: 'web', u: 'd', s: 'progress' };
  const set: Row = { k: 'replicasets.apps', n: 'default', m: 'web-1', u: 'rs', o: 'd' };
  model.addRow({ k: 'nodes', m: 'node-1', u: 'n', s: 'ready' });
  model.add(line(2, 'created', web), true);
  model.add(line(3, 'created', set, { c: [2] }), true);
  model.add(line(4, 'created', pod('p', { o: 'rs', s: 'pending' }), { c: [3] }), true);
  model.add(line(5, 'updated', pod('p', { o: 'rs', s: 'ready' }), { c: [4] }), true);
  model.add(line(6, 'updated', pod('p', { o: 'rs', s: 'ready' })), true);
  model.add(line(7, 'deleted', pod('p')), true);
  return model;
}

test('a life has a stretch for each state, and ends with the object', () => {
  const model = example();
  assert.deepEqual(laneOf(model, 'pods/default/p')?.lives, [
    { from: 3, to: 4, state: 'pending' },
    { from: 4, to: 6, state: 'ready' },
  ]);
  assert.deepEqual(laneOf(model, 'nodes//node-1')?.lives, [{ from: 0, to: Number.POSITIVE_INFINITY, state: 'ready' }]);
  assert.deepEqual(laneOf(model, 'pods/default/p')?.marks, [2, 3, 4, 5]);
  assert.equal(laneOf(model, 'pods/default/none'), null);
});

test('an object that is made again has two lives', () => {
  const model = example();
  model.add(line(8, 'created', pod('p', { u: 'other', s: 'ready' })), true);
  assert.deepEqual(laneOf(model, 'pods/default/p')?.lives.map(({ from, to }) => [from, to]), [[3, 4], [4, 6], [7, Number.POSITIVE_INFINITY]]);
});

test('lanes are below their owners', () => {
  const found = lanes(example(), 'owner', () => true).map((lane) => `${' '.repeat(lane.depth)}${lane.row.m}`);
  assert.deepEqual(found, ['web', ' web-1', '  p', 'node-1']);
  assert.deepEqual(lanes(example(), 'kind', (row) => row.k === 'pods').map((lane) => lane.row.m), ['p']);
});

test('arrows lead from causes to the write and on to its effects', () => {
  assert.deepEqual(arrows(example(), 3), [
    { from: 'deployments.apps/default/web', fromRevision: 2, to: 'replicasets.apps/default/web-1', toRevision: 3 },
    { from: 'replicasets.apps/default/web-1', fromRevision: 3, to: 'pods/default/p', toRevision: 4 },
  ]);
  assert.deepEqual(arrows(example(), 99), []);
});
