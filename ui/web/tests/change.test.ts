import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changes, equal, masked, shortValue, shownChanges, type Json } from '../src/change.ts';
import { numbers } from './check.ts';

const paths = (old: Json, now: Json) => changes(old, now).map(({ path, from, to }) => `${path} ${shortValue(from)} → ${shortValue(to)}`);

test('items of lists are matched by what tells them apart', () => {
  const containers = (list: Json) => ({ spec: { containers: list } });
  const old = containers([{ name: 'a', image: 'a:1', ports: [{ containerPort: 80 }] }, { name: 'b' }]);
  const now = containers([{ name: 'b' }, { name: 'a', image: 'a:2', ports: [{ containerPort: 80, name: 'web' }] }, { name: 'c' }]);
  assert.deepEqual(paths(old, now), [
    'spec.containers[a].image a:1 → a:2',
    'spec.containers[a].ports[80/TCP].name – → web',
    'spec.containers[c] – → {"name":"c"}',
    'spec.containers (order) ["a","b"] → ["b","a"]',
  ]);
  assert.deepEqual(paths({ a: [{ name: 'x' }, { name: 'x' }] }, { a: [] }), ['a [{"name":"x"},{"name":"x"}] → []']);
  assert.deepEqual(paths({ a: [1, 2] }, { a: [2] }), ['a [1,2] → [2]']);
});

test('what every write changes is left out, and nothing else', () => {
  const object = (version: string, label: string): Json => ({
    metadata: { resourceVersion: version, generation: version, managedFields: [version], labels: { 'a.b/c': label }, annotations: { 'kubectl.kubernetes.io/last-applied-configuration': version } },
  });
  assert.deepEqual(paths(object('1', 'x'), object('2', 'y')), ['metadata.labels[a.b/c] x → y']);
  assert.equal(changes(object('1', 'x'), object('2', 'y'), true).length, 5);
});

test('values of Secrets are in no change and in no shown object', () => {
  const secret = (value: string): Json => ({ kind: 'Secret', data: { key: value }, type: value });
  const found = shownChanges(secret('b25l'), secret('dHdv'));
  assert.deepEqual(found.map(({ path, from, to }) => [path, from, to]), [['data.key', '•••', '•••'], ['type', 'b25l', 'dHdv']]);
  assert.deepEqual((masked({ kind: 'Secret', data: { key: 'dHdvMQ==' } }) as { data: Json }).data, { key: '••• (4 bytes)' });
  for (const copy of ['kubectl.kubernetes.io/last-applied-configuration', 'kapp.k14s.io/original']) {
    const applied = (value: string): Json => ({ kind: 'Secret', metadata: { annotations: { [copy]: value, team: 'a' } } });
    for (const old of [{ kind: 'Secret', metadata: {} }, { kind: 'Secret' }, applied('dHdx')]) assert.ok(!JSON.stringify(shownChanges(old, applied('dHdv'))).includes('dHd'), copy);
    assert.deepEqual((masked(applied('dHdv')) as { metadata: Json }).metadata, { annotations: { [copy]: '•••', team: 'a' } });
  }
  assert.deepEqual(masked({ kind: 'ConfigMap', data: { key: 'x' } }), { kind: 'ConfigMap', data: { key: 'x' } });
});

test('changes are empty only for equal objects', () => {
  const next = numbers(11);
  const value = (depth: number): Json => {
    switch (next(depth ? 6 : 3)) {
      case 0:
        return null;
      case 1:
        return next(3);
      case 2:
        return `t${next(3)}`;
      case 3:
        return Array.from({ length: next(3) }, () => value(depth - 1));
      default:
        return Object.fromEntries(Array.from({ length: next(4) }, () => [`m${next(4)}`, value(depth - 1)]));
    }
  };
  for (let at = 0; at < 2000; at++) {
    const [a, b] = [value(3), value(3)];
    assert.equal(changes(a, b).length === 0, equal(a, b), JSON.stringify([a, b]));
    assert.equal(changes(a, structuredClone(a)).length, 0);
  }
});

test('long values are cut, and control characters are not shown', () => {
  assert.equal(shortValue('x'.repeat(300)).length, 121);
  assert.equal(shortValue('a\u001b[1m\nb'), 'a\ufffd[1m⏎b');
  assert.deepEqual([shortValue(undefined), shortValue(''), shortValue({ a: 1 })], ['–', '""', '{"a":1}']);
});
