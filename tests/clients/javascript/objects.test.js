// Typed and untyped calls of @kubernetes/client-node: create, read, list, update, the four kinds of patch, delete, refusals.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ApiextensionsV1Api, AppsV1Api, AuthenticationV1Api, CustomObjectsApi, Health, KubeConfig, KubernetesObjectApi, PatchStrategy,
  VersionApi, dumpYaml, loadAllYaml, setHeaderOptions,
} from '@kubernetes/client-node';
import { cluster, refusal, until } from './cluster.js';

const server = await cluster();
const namespace = 'default';
const patchOptions = (strategy) => setHeaderOptions('Content-Type', strategy);

function deployment(name) {
  const labels = { app: name };
  return {
    metadata: { name },
    spec: {
      replicas: 2,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: 'web', image: 'nginx' }] } },
    },
  };
}

test('typed objects are created, read, replaced and deleted', async () => {
  const { core } = server;
  const made = await core.createNamespacedConfigMap({ namespace, body: { metadata: { generateName: 'a-' }, data: { key: '1' } } });
  const name = made.metadata.name;
  assert.match(name, /^a-/);
  assert.ok(made.metadata.creationTimestamp instanceof Date);
  made.data.key = '2';
  const changed = await core.replaceNamespacedConfigMap({ name, namespace, body: made });
  assert.equal((await core.readNamespacedConfigMap({ name, namespace })).data.key, '2');
  await assert.rejects(core.replaceNamespacedConfigMap({ name, namespace, body: { ...made, data: { key: '3' } } }), (error) => {
    assert.deepEqual(refusal(error), [409, 'Conflict']);
    return true;
  });
  const status = await core.deleteNamespacedConfigMap({ name, namespace, body: { preconditions: { uid: changed.metadata.uid } } });
  assert.equal(status.status, 'Success');
  await assert.rejects(core.readNamespacedConfigMap({ name, namespace }), (error) => {
    assert.deepEqual(refusal(error), [404, 'NotFound']);
    return true;
  });
});

test('lists have pages and selectors', async () => {
  const { core } = server;
  for (let n = 0; n < 5; n++) {
    await core.createNamespacedSecret({ namespace, body: { metadata: { name: `page-${n}`, labels: { page: 'yes' } }, stringData: { n: `${n}` } } });
  }
  const names = [];
  let next;
  do {
    const list = await core.listNamespacedSecret({ namespace, labelSelector: 'page=yes', limit: 2, _continue: next });
    names.push(...list.items.map((one) => one.metadata.name));
    next = list.metadata._continue;
  } while (next);
  assert.deepEqual(names, [0, 1, 2, 3, 4].map((n) => `page-${n}`));
  const one = await core.listSecretForAllNamespaces({ fieldSelector: 'metadata.name=page-3' });
  assert.equal(Buffer.from(one.items[0].data.n, 'base64').toString(), '3');
  await core.deleteCollectionNamespacedSecret({ namespace, labelSelector: 'page=yes' });
  assert.equal((await core.listNamespacedSecret({ namespace, labelSelector: 'page=yes' })).items.length, 0);
});

test('all kinds of patches change a deployment', async () => {
  const apps = server.config.makeApiClient(AppsV1Api);
  const name = 'patched';
  await apps.createNamespacedDeployment({ namespace, body: deployment(name) });
  const patch = (body, strategy, more) => apps.patchNamespacedDeployment({ name, namespace, body, ...more }, patchOptions(strategy));
  await patch({ spec: { template: { spec: { containers: [{ name: 'log', image: 'busybox' }] } } } }, PatchStrategy.StrategicMergePatch);
  let found = await patch({ metadata: { labels: { merge: 'yes' } }, spec: { replicas: 1 } }, PatchStrategy.MergePatch);
  assert.deepEqual(found.spec.template.spec.containers.map((one) => one.name).sort(), ['log', 'web']);
  assert.equal(found.spec.replicas, 1);
  found = await patch([{ op: 'remove', path: '/metadata/labels' }], PatchStrategy.JsonPatch);
  assert.equal(found.metadata.labels, undefined);
  const applied = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name, labels: { applied: 'yes' } }, spec: { replicas: 3 } };
  await assert.rejects(patch(applied, PatchStrategy.ServerSideApply, { fieldManager: 'javascript' }), (error) => {
    assert.deepEqual(refusal(error), [409, 'Conflict']);
    return true;
  });
  found = await patch(applied, PatchStrategy.ServerSideApply, { fieldManager: 'javascript', force: true });
  assert.equal(found.spec.replicas, 3);
  assert.ok(found.metadata.managedFields.some((one) => one.manager === 'javascript' && one.operation === 'Apply'));
  const scale = await apps.patchNamespacedDeploymentScale({ name, namespace, body: { spec: { replicas: 2 } } }, patchOptions(PatchStrategy.MergePatch));
  assert.equal(scale.spec.replicas, 2);
  await until(async () => (await apps.readNamespacedDeployment({ name, namespace })).status.readyReplicas === 2);
});

test('objects of any kind are applied without their types', async () => {
  const client = KubernetesObjectApi.makeApiClient(server.config);
  const text = `
apiVersion: v1
kind: Service
metadata: {name: untyped}
spec: {selector: {app: untyped}, ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: untyped, annotations: {a: "1"}}
data: {key: value}
`;
  for (const one of loadAllYaml(text)) {
    await client.create(one);
    const found = await client.read(one);
    assert.equal(found.metadata.namespace, 'default');
    assert.match(dumpYaml(found), /name: untyped/);
  }
  const config = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'untyped' } };
  const apply = (data) => client.patch({ ...config, data }, undefined, undefined, 'javascript', true, PatchStrategy.ServerSideApply);
  assert.deepEqual((await client.patch({ ...config, data: { other: 'x' } })).data, { key: 'value', other: 'x' });
  await apply({ mine: '1' });
  assert.deepEqual((await apply({ yours: '1' })).data, { key: 'value', other: 'x', yours: '1' });
  assert.equal((await client.list('v1', 'ConfigMap', 'default', undefined, undefined, undefined, 'metadata.name=untyped')).items.length, 1);
  const read = await client.read(config);
  assert.deepEqual((await client.replace({ ...read, data: { all: 'new' } })).data, { all: 'new' });
  assert.equal((await client.create({ ...config, metadata: { name: 'dry' } }, undefined, 'All')).metadata.name, 'dry');
  await assert.rejects(client.read({ ...config, metadata: { name: 'dry' } }), (error) => error.code === 404);
  await client.delete(config, undefined, undefined, undefined, undefined, 'Foreground');
  await until(async () => client.read(config).then(() => false, (error) => error.code === 404));
});

test('a custom kind is served once its definition is established', async () => {
  const extensions = server.config.makeApiClient(ApiextensionsV1Api);
  const schema = { type: 'object', properties: { spec: { type: 'object', properties: { size: { type: 'integer', minimum: 1 } } } } };
  await extensions.createCustomResourceDefinition({
    body: {
      metadata: { name: 'gadgets.example.com' },
      spec: {
        group: 'example.com', scope: 'Namespaced', names: { plural: 'gadgets', kind: 'Gadget' },
        versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema }, subresources: { status: {} } }],
      },
    },
  });
  const custom = server.config.makeApiClient(CustomObjectsApi);
  const kind = { group: 'example.com', version: 'v1', namespace, plural: 'gadgets' };
  const gadget = (size) => ({ apiVersion: 'example.com/v1', kind: 'Gadget', metadata: { name: 'g' }, spec: { size } });
  await until(async () => custom.createNamespacedCustomObject({ ...kind, body: gadget(2) }).then(() => true, () => false));
  await custom.patchNamespacedCustomObjectStatus({ ...kind, name: 'g', body: { status: {} } }, patchOptions(PatchStrategy.MergePatch));
  await assert.rejects(custom.createNamespacedCustomObject({ ...kind, body: { ...gadget(0), metadata: { name: 'h' } } }), (error) => {
    assert.deepEqual(refusal(error), [422, 'Invalid']);
    return true;
  });
  assert.equal((await custom.listNamespacedCustomObject(kind)).items.length, 1);
});

test('a kubeconfig with a token of a service account authenticates', async () => {
  const { core, config } = server;
  await core.createNamespacedServiceAccount({ namespace, body: { metadata: { name: 'robot' } } });
  const issued = await core.createNamespacedServiceAccountToken({ namespace, name: 'robot', body: { spec: { expirationSeconds: 600 } } });
  const other = new KubeConfig();
  other.loadFromClusterAndUser(config.getCurrentCluster(), { name: 'robot', token: issued.status.token });
  const review = await other.makeApiClient(AuthenticationV1Api).createSelfSubjectReview({ body: {} });
  assert.equal(review.status.userInfo.username, 'system:serviceaccount:default:robot');
  assert.ok((await config.makeApiClient(VersionApi).getCode()).gitVersion.startsWith('v1.'));
  assert.ok(await new Health(config).readyz({}));
});
