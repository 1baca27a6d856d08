import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Model } from '../src/model.ts';
import { deletedRows, factsOf, isEmpty, matches, parseQuery } from '../src/search.ts';
import { line, pod } from './check.ts';

const row = pod('web-1', { d: 'node-1', i: ['Nginx:2'], s: 'pending', l: { 'app.kubernetes.io/name': 'Web', tier: 'front' } });

test('all parts of a search must match', () => {
  for (const [text, expected] of [
    ['', true],
    ['WEB', true],
    ['web front', true],
    ['web back', false],
    ['kind:pod', true],
    ['kind:pods ns:default node:node-1 image:nginx state:pending name:web', true],
    ['kind:po', false],
    ['ns:def', false],
    ['name=web', true],
    ['app.kubernetes.io/name=web tier=front', true],
    ['tier=fro', false],
    ['unknown:word', false],
  ] as const) {
    assert.equal(matches(row, parseQuery(text), factsOf(new Model(1), row)), expected, text);
  }
  assert.ok(isEmpty(parseQuery('  ')) && !isEmpty(parseQuery('x')));
});

test('a search may ask who wrote an object, at which revision, its phase, and whether it is deleted', () => {
  const model = new Model(1);
  const there = pod('there', { s: 'pending' });
  const gone = pod('gone', { s: 'ready', d: 'node-1' });
  model.addRow(there);
  model.add(line(2, 'created', gone), true);
  model.add(line(3, 'updated', there, { w: ['system:kube-scheduler', 'kube-scheduler/v1', 'update'] }), true);
  model.add(line(4, 'deleted', gone, { w: ['Ann', 'helm/3', 'delete'] }), true);
  assert.deepEqual(deletedRows(model).map((row) => row.m), ['gone']);
  for (const [text, found] of [
    ['by:jane', ['gone']],
    ['by:kubectl', ['gone']],
    ['by:ann', ['gone']],
    ['by:helm kind:pod', ['gone']],
    ['by:scheduler', ['there']],
    ['by:nobody', []],
    ['by:', []],
    ['rev:3', ['there']],
    ['rev:#4', ['gone']],
    ['rev:9', []],
    ['rev:x', []],
    ['deleted:yes', ['gone']],
    ['deleted:yes node:node-1', ['gone']],
    ['deleted:no', ['there']],
    ['deleted:maybe', []],
    ['phase:Pending', ['there']],
    ['phase:running', ['gone']],
    ['phase:failed', []],
    ['phase:odd', []],
  ] as const) {
    const query = parseQuery(text);
    assert.deepEqual([there, gone].filter((row) => matches(row, query, factsOf(model, row))).map((row) => row.m), found, text);
  }
  const deployment = { k: 'deployments.apps', n: 'default', m: 'web', s: 'pending' as const };
  assert.ok(!matches(deployment, parseQuery('phase:pending'), factsOf(model, deployment)), 'only pods have phases');
  model.seek(2);
  assert.ok(!factsOf(model, gone).isDeleted() && !deletedRows(model).length, 'it exists at the cursor');
  model.seek(0);
  assert.deepEqual(deletedRows(model), [], 'what is not created yet is not deleted');
});

test('a part of a search that is not what it looks like is named', () => {
  for (const [text, notes] of [
    ['web kind:pod by:jane rev:#3 deleted:no phase:Running app=web', 0],
    ['nginx:2', 1],
    ['author:jane', 1],
    ['rev:x deleted:maybe phase:odd by:', 4],
  ] as const) {
    assert.equal(parseQuery(text).notes.length, notes, text);
  }
  assert.match(parseQuery('author:jane').notes[0], /^author:jane is searched as a word: members are kind, .*, deleted$/);
});
