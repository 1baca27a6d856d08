// Watches and informers of @kubernetes/client-node.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PatchStrategy, Watch, makeInformer, setHeaderOptions } from '@kubernetes/client-node';
import { cluster, until } from './cluster.js';

const server = await cluster('--components', 'apiserver');
const namespace = 'default';
const path = `/api/v1/namespaces/${namespace}/configmaps`;

/** Watches until `enough` of the events is true, or the server ends the watch. */
async function watched(query, enough) {
  const events = [];
  let end;
  const ended = new Promise((resolve) => (end = resolve));
  const seen = (type, object) => {
    events.push([type, object]);
    if (enough(events)) end();
  };
  const controller = await new Watch(server.config).watch(path, query, seen, (error) => end(error));
  const error = await ended;
  controller.abort();
  return { events, error };
}

const create = (name, labels) => server.core.createNamespacedConfigMap({ namespace, body: { metadata: { name, labels } } });

test('a watch resumes at the revision of a list and misses nothing', async () => {
  await create('before');
  const { resourceVersion } = (await server.core.listNamespacedConfigMap({ namespace })).metadata;
  await create('one');
  const patch = { name: 'one', namespace, body: { data: { key: 'value' } } };
  await server.core.patchNamespacedConfigMap(patch, setHeaderOptions('Content-Type', PatchStrategy.MergePatch));
  await server.core.deleteNamespacedConfigMap({ name: 'one', namespace });
  const query = { resourceVersion, fieldSelector: 'metadata.name=one' };
  const { events } = await watched(query, (all) => all.length === 3);
  assert.deepEqual(events.map(([type, object]) => [type, object.metadata.name]), [['ADDED', 'one'], ['MODIFIED', 'one'], ['DELETED', 'one']]);
  const last = events[1][1].metadata.resourceVersion;
  const resumed = await watched({ ...query, resourceVersion: last }, (all) => all.length === 1);
  assert.equal(resumed.events[0][0], 'DELETED');
});

test('a watch that streams the list has a bookmark after it', async () => {
  await create('streamed', { stream: 'yes' });
  const query = {
    labelSelector: 'stream=yes', sendInitialEvents: true, resourceVersionMatch: 'NotOlderThan', allowWatchBookmarks: true,
  };
  const { events } = await watched(query, (all) => all.at(-1)[0] === 'BOOKMARK');
  assert.deepEqual(events.map(([type]) => type), ['ADDED', 'BOOKMARK']);
  assert.equal(events[1][1].metadata.annotations['k8s.io/initial-events-end'], 'true');
});

test('a watch ends without an error at its timeout', async () => {
  const { events, error } = await watched({ timeoutSeconds: 1, labelSelector: 'none=such' }, () => false);
  assert.deepEqual(events, []);
  assert.ok(!error || error === Watch.SERVER_SIDE_CLOSE, String(error));
});

test('an informer follows a selector, reconnects, and knows what was deleted meanwhile', async () => {
  const labelSelector = 'informed=yes';
  const list = () => server.core.listNamespacedConfigMap({ namespace, labelSelector });
  const informer = makeInformer(server.config, path, list, labelSelector);
  const events = [];
  for (const verb of ['add', 'update', 'delete']) informer.on(verb, (object) => events.push(`${verb} ${object.metadata.name}`));
  // The client reports the end of a watch that it stopped itself as an error.
  informer.on('error', (error) => error.name === 'AbortError' || events.push(`error ${error}`));
  await create('first', { informed: 'yes' });
  await informer.start();
  await create('second', { informed: 'yes' });
  await create('other', { informed: 'no' });
  const patch = { name: 'first', namespace, body: { metadata: { labels: { informed: 'no' } } } };
  await server.core.patchNamespacedConfigMap(patch, setHeaderOptions('Content-Type', PatchStrategy.MergePatch));
  await until(() => events.includes('delete first'), 'the object that left the selector');
  assert.deepEqual(informer.list().map((one) => one.metadata.name), ['second']);
  await informer.stop();
  await server.core.deleteNamespacedConfigMap({ name: 'second', namespace });
  await create('third', { informed: 'yes' });
  await informer.start();
  await until(() => events.includes('delete second') && events.includes('add third'), 'the changes during the pause');
  assert.deepEqual(events.filter((one) => one.startsWith('error')), []);
  assert.deepEqual(informer.list('default').map((one) => one.metadata.name), ['third']);
  await informer.stop();
});
