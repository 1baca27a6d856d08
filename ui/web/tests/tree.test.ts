import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rowKey, type Row } from '../src/model.ts';
import { Tree } from '../src/tree.ts';
import { pod } from './check.ts';

const rows = (list: Row[]): Map<string, Row> => new Map(list.map((row) => [rowKey(row), row]));
const web: Row = { k: 'deployments.apps', n: 'default', m: 'web', u: 'd' };
const set: Row = { k: 'replicasets.apps', n: 'default', m: 'web-1', u: 'rs', o: 'd' };

test('pods count for the topmost owner, and those in need come first', () => {
  const tree = new Tree(rows([web, set, pod('web-1-a', { o: 'rs', d: 'n1' }), pod('web-1-b', { o: 'rs', d: 'n1' }), pod('alone', { s: 'pending' }), { k: 'events', m: 'e', o: 'd' }]));
  const found = tree.workloads('').map(({ row, pods }) => [row.m, pods.length]);
  assert.deepEqual(found, [['alone', 1], ['web', 2]]);
  assert.deepEqual(tree.owners(pod('web-1-a', { o: 'rs' })).map((row) => row.m), ['web-1', 'web']);
  assert.deepEqual(tree.children(web).map((row) => row.m), ['web-1']);
  assert.deepEqual(tree.workloads('other'), []);
});

test('owners in a circle end', () => {
  const tree = new Tree(rows([{ k: 'a', m: 'a', u: 'a', o: 'b' }, { k: 'b', m: 'b', u: 'b', o: 'a' }]));
  assert.equal(tree.owners({ k: 'a', m: 'a', u: 'a', o: 'b' }).length, 10);
});

test('pods are by node, nodes in natural order, those without a node last', () => {
  const node = (m: string): Row => ({ k: 'nodes', m });
  const tree = new Tree(rows([node('node-10'), node('node-2'), pod('a', { d: 'node-10' }), pod('b', { s: 'pending' }), pod('c', { d: 'gone' }), pod('d', { d: 'node-2', s: 'done' })]));
  assert.deepEqual([...tree.podsByNode('')].map(([name, pods]) => [name, pods.map((row) => row.m)]), [
    ['gone', ['c']],
    ['node-2', []],
    ['node-10', ['a']],
    ['', ['b']],
  ]);
});
