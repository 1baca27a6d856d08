import assert from 'node:assert/strict';
import { test } from 'node:test';
import { format, HOME, parse } from '../src/route.ts';

test('every route has an address that leads to it', () => {
  for (const route of [
    HOME,
    { ...HOME, at: 263 },
    { ...HOME, view: 'timeline' as const, write: 12, namespace: 'shop' },
    { ...HOME, view: 'object' as const, subject: 'pods/default/web-1', at: 3 },
    { ...HOME, view: 'object' as const, subject: 'clusterroles.rbac.authorization.k8s.io//system:a/b?c#d%' },
    { ...HOME, view: 'compare' as const, at: 9, mark: 3 },
    { ...HOME, view: 'scheduling' as const },
    { ...HOME, view: 'scheduling' as const, subject: 'pods/default/web-1', at: 3 },
    { ...HOME, view: 'list' as const, subject: 'pods', search: 'app=web & <b>' },
  ]) {
    assert.deepEqual(parse(format(route)), route, format(route));
  }
  assert.equal(format({ ...HOME, view: 'object', subject: 'pods/default/web-1', at: 263 }), '#/object/pods/default/web-1?at=263');
});

test('addresses that make no sense lead to the overview', () => {
  for (const hash of ['', '#', '#/nothing', '#/object', '#/object/pods', '#/%E0%A4%A', '#/?at=-1', '#/?at=x&ns=']) {
    assert.deepEqual(parse(hash), HOME, hash);
  }
});
