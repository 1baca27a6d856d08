import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Model, rowKey } from '../src/model.ts';
import { amount, attemptNumbers, attemptText, behindFirst, commands, lacksOf, placedPods, placementInReport, shellWord, waitingPods, type Attempt, type NodeVerdict, type Placement, type Verdicts } from '../src/scheduling.ts';
import { line, pod } from './check.ts';

test('pods without a node wait, unless they have ended or are in another namespace', () => {
  const rows = [
    pod('young', { s: 'pending', c: '2026-01-02T00:00:00Z' }),
    pod('old', { s: 'pending', c: '2026-01-01T00:00:00Z' }),
    pod('placed', { d: 'node-1' }),
    pod('over', { s: 'done' }),
    pod('other', { s: 'pending', n: 'shop', c: '2026-01-03T00:00:00Z' }),
    { ...pod('a-node'), k: 'nodes' },
  ];
  assert.deepEqual(waitingPods(rows, '').map(rowKey), ['pods/default/old', 'pods/default/young', 'pods/shop/other']);
  assert.deepEqual(waitingPods(rows, 'shop').map(rowKey), ['pods/shop/other']);
});

test('pods are placed by the write that gave them a node, as of the cursor, the last one first', () => {
  const model = new Model(1);
  model.addRow(pod('before', { d: 'node-1' }));
  for (const name of ['a', 'b', 'gone', 'again']) model.add(line(model.newest() + 1, 'created', pod(name)), true);
  for (const name of ['a', 'b', 'gone', 'again']) model.add(line(model.newest() + 1, 'updated', pod(name, { d: 'node-1' })), true);
  model.add(line(10, 'updated', pod('a', { d: 'node-1', s: 'ready' })), true);
  model.add(line(11, 'deleted', pod('gone')), true);
  model.add(line(12, 'deleted', pod('again')), true);
  model.add(line(13, 'created', pod('again', { u: 'another' })), true);
  const found = (most = 10, namespace = '') => placedPods(model, namespace, most).map(({ row, revision }) => `${row.m} ${revision}`);
  assert.deepEqual(found(), ['b 7', 'a 6']);
  assert.deepEqual(found(1), ['b 7']);
  assert.deepEqual(found(10, 'shop'), []);
  model.seek(model.countUpTo(11));
  assert.deepEqual(found(), ['again 9', 'b 7', 'a 6']);
  model.seek(model.countUpTo(6));
  assert.deepEqual(found(), ['a 6']);
});

const verdict = (node: string, more: Partial<NodeVerdict>): NodeVerdict => ({ node, fits: false, total: null, scores: {}, refusals: [], ...more });

test('what a node lacks is said in amounts and taints, else in the reasons of the filter', () => {
  const refusals = [
    { plugin: 'NodeResourcesFit', reasons: ['Insufficient cpu'], lacks: [{ resource: 'cpu', requested: 2000, free: 1600 }, { resource: 'memory', requested: 3 * 2 ** 30, free: 2 ** 30 }] },
    { plugin: 'TaintToleration', reasons: ['node(s) had untolerated taint(s)'], lacks: [{ taint: { key: 'k', value: '', effect: 'NoSchedule' } }, { taint: { key: 'k', value: 'v', effect: 'NoExecute' } }] },
    { plugin: 'NodeAffinity', reasons: ['no match'], lacks: [] },
  ];
  assert.equal(lacksOf(verdict('n', { refusals })), 'cpu 0.4 of 2; memory 2Gi of 3Gi; toleration of k:NoSchedule; toleration of k=v:NoExecute; no match');
  assert.deepEqual([amount('cpu', 1), amount('memory', 1536 * 2 ** 20), amount('memory', 12), amount('pods', 110)], ['0.001', '1.5Gi', '12', '110']);
});

test('a node that fits is compared with the first one in weighted points', () => {
  const nodes = [verdict('a', { fits: true, total: 350, scores: { Fit: 50, PodTopologySpread: 100 } }), verdict('b', { fits: true, total: 251, scores: { Fit: 51, PodTopologySpread: 50 } })];
  const verdicts = { nodes, scores: [{ plugin: 'PodTopologySpread', weight: 2 }, { plugin: 'Fit', weight: 1 }] } as Verdicts;
  assert.equal(behindFirst(verdicts, nodes[0]), '');
  assert.equal(behindFirst(verdicts, nodes[1]), '−100 Spread, +1 Fit');
});

test('a record says its attempts and their result', () => {
  const record = (more: Partial<Attempt>): Attempt => ({ attempt: 2, repeats: 0, time: '2026-01-01T00:00:00Z', seen: 5, result: 'refused', ...more });
  assert.deepEqual([attemptNumbers(record({})), attemptNumbers(record({ repeats: 3 }))], ['2', '2 to 5']);
  assert.equal(attemptText(record({ refused: { message: '0/3 nodes.', nodes: 3 } })), '0/3 nodes.');
  assert.equal(attemptText(record({ refused: { message: 'm.', nodes: 3, evictions: { count: 2 } } })), 'm. Evicts 2 pods.');
  assert.equal(attemptText(record({ refused: { message: 'm.', nodes: 3, evictions: { count: 1, node: 'n', pods: ['a/b'] } } })), 'm. Evicts a/b from n.');
  assert.equal(attemptText(record({ placed: { node: 'n', evaluated: 3, feasible: 2, best: 1, total: 9 } })), 'chose n: 3 evaluated, 2 feasible, 1 best');
  assert.equal(attemptText(record({ failed: { message: 'conflict' } })), 'failed: conflict');
});

test('commands to copy name the pod, a node and the revision, and are safe for a shell', () => {
  const answer = (more: Partial<Placement>): Placement => ({ pod: 'shop/db-1', scheduler: 's', state: 'pending', node: null, records: [], notes: [], ...more });
  const computed = { nodes: [verdict('node-7', {})] } as unknown as Verdicts;
  const explain = 'kstore-server explain pod/db-1 -n shop --placement --all-nodes';
  assert.deepEqual(commands(answer({ computed }), null), ['kstore-server what-if --with-nodes 1xnode/node-7', explain]);
  assert.deepEqual(commands(answer({ state: 'placed', node: 'node-3' }), 412), ['kstore-server what-if --without node/node-3 --at 412', `${explain} --at 412`]);
  assert.deepEqual(commands(answer({}), null), [explain]);
  assert.deepEqual([shellWord('node/a-1'), shellWord("a'; rm -rf $HOME")], ['node/a-1', "'a'\\''; rm -rf $HOME'"]);
});

test('in a report a pod is as its row is at the slider, with the records of the pod of its uid', () => {
  const model = new Model(1);
  model.add(line(2, 'created', pod('db', { s: 'pending' })), true);
  model.add(line(3, 'updated', pod('db', { s: 'pending', d: 'node-1' })), true);
  model.add(line(4, 'updated', pod('db', { s: 'done', d: 'node-1' })), true);
  const records = [{ attempt: 2, repeats: 0, time: '', seen: 2, result: 'placed' as const, placed: { node: 'node-1', evaluated: 3, feasible: 2, best: 1, total: 90, scores: { NodeResourcesFit: 90 } } }];
  const known = [{ pod: 'default/db', uid: 'another', records: [] }, { pod: 'default/db', uid: 'uid-db', scheduler: 's', records, notes: [], computed: { revision: 4 } }] as unknown as Placement[];
  const at = (count: number) => {
    model.seek(count);
    return placementInReport(model.rows.get('pods/default/db')!, model, known);
  };
  const shown = [1, 2, 3].map(at).map(({ state, node, bound, computed }) => [state, node, bound?.revision, computed?.revision]);
  assert.deepEqual(shown, [['pending', null, undefined, 4], ['placed', 'node-1', 3, undefined], ['ended', 'node-1', 3, undefined]]);
  assert.equal(at(1).records, records);
  assert.equal(attemptText(records[0]), 'chose node-1: 3 evaluated, 2 feasible, 1 best; total 90: Fit 90');
  assert.deepEqual([placementInReport(pod('x'), model, []).records, placementInReport(pod('x'), model, []).state], [[], 'pending']);
});
