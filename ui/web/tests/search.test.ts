import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isEmpty, matches, parseQuery } from '../src/search.ts';
import { pod } from './check.ts';

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
    assert.equal(matches(row, parseQuery(text)), expected, text);
  }
  assert.ok(isEmpty(parseQuery('  ')) && !isEmpty(parseQuery('x')));
});
