// What a cluster does with objects beyond apply, get, delete and wait for one. Runs against the installed package.
'use strict';

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { X509Certificate } = require('node:crypto');
const fs = require('node:fs');
const https = require('node:https');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { setTimeout: delay } = require('node:timers/promises');
const { KstoreError, UsageError, WaitTimeout } = require('kstore');
const { useCluster } = require('kstore/node-test');

const configMap = (name, labels = {}) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, labels }, data: { k: 'v' } });
const deployment = (replicas) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'web' },
  spec: {
    replicas,
    selector: { matchLabels: { app: 'web' } },
    template: { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'c', image: 'nginx' }] } },
  },
});
const POD = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'p' },
  spec: {
    restartPolicy: 'Never',
    containers: [{ name: 'c', image: 'busybox', command: ['sh', '-c', 'echo one; echo two; sleep 3600'] }],
  },
};
const names = (objects) => objects.map((object) => object.metadata.name);

/** The reasons of events, when one of them is there: they are written after what they tell of. */
async function reasons(ask, wanted) {
  const deadline = performance.now() + 60_000;
  for (;;) {
    const found = [...new Set((await ask()).map((event) => event.reason))];
    if (found.includes(wanted) || performance.now() >= deadline) return found;
    await delay(20);
  }
}

const kstore = useCluster({ nodes: 1 });

test('list selects by labels and fields in one namespace or all', kstore.inNamespace(async (cluster) => {
  await cluster.apply([configMap('a', { tier: 'x' }), configMap('b', { tier: 'y' }), configMap('c', { tier: 'x', other: 'z' })]);
  assert.deepEqual(names(await cluster.list('configmap', { labels: 'tier=x' })), ['a', 'c']);
  assert.deepEqual(names(await cluster.list('cm', { labels: { tier: 'x', other: 'z' } })), ['c']);
  assert.deepEqual(names(await cluster.list('configmaps', { fields: 'metadata.name=b' })), ['b']);
  assert.deepEqual(await kstore.cluster.list('configmaps', { labels: 'tier=y' }), []);
  const [found] = await kstore.cluster.list('configmaps', { labels: 'tier=y', allNamespaces: true });
  // Each says what it is, and so names itself.
  assert.deepEqual(await kstore.cluster.get(found), found);
}));

test('patch merges objects and takes JSON patches', kstore.inNamespace(async (cluster) => {
  await cluster.apply(configMap('a'));
  assert.deepEqual((await cluster.patch('configmap/a', { data: { k: null, l: 'w' } })).data, { l: 'w' });
  const added = await cluster.patch('configmap/a', [{ op: 'add', path: '/data/m', value: 'x' }]);
  assert.deepEqual(added.data, { l: 'w', m: 'x' });
  await cluster.apply(deployment(0));
  const second = { spec: { template: { spec: { containers: [{ name: 'second', image: 'busybox' }] } } } };
  const patched = await cluster.patch('deployment/web', second, { type: 'strategic' });
  assert.deepEqual(patched.spec.template.spec.containers.map((one) => one.name).sort(), ['c', 'second']);
  const observed = await cluster.patch('deployment/web', { status: { observedGeneration: 7 } }, { subresource: 'status' });
  assert.equal(observed.status.observedGeneration, 7);
  await assert.rejects(cluster.patch('configmap/a', {}, { type: 'apply' }), UsageError);
}));

test('scale, waitAll and events', kstore.inNamespace(async (cluster) => {
  await cluster.apply(deployment(1));
  await cluster.scale('deployment/web', 3);
  await cluster.wait('deployment/web', { matches: { status: { readyReplicas: 3 } } });
  const pods = await cluster.list('pods', { labels: 'app=web' });
  assert.equal((await cluster.waitAll(pods, { condition: 'Ready' })).length, 3);
  assert.deepEqual(await reasons(() => cluster.events('deployment/web'), 'ScalingReplicaSet'), ['ScalingReplicaSet']);
  // A pod of the same name as the Deployment is another object.
  assert.deepEqual(await cluster.events('pod/web'), []);
  assert.ok((await reasons(() => cluster.events(pods[0]), 'Scheduled')).includes('Scheduled'));
}));

test('waitAll has one limit and names the object that is missing', kstore.inNamespace(async (cluster) => {
  await cluster.apply([configMap('a'), configMap('b')]);
  assert.deepEqual(names(await cluster.waitAll(['configmap/a', 'configmap/b'], { timeout: 0 })), ['a', 'b']);
  await assert.rejects(cluster.waitAll(['configmap/a', 'configmap/c', 'configmap/d'], { timeout: 200 }), (error) => {
    assert.ok(error instanceof WaitTimeout);
    assert.match(error.message, /^configmap\/c in .* was not there after 200 ms/);
    return true;
  });
}));

test('logs are those of the container', kstore.inNamespace(async (cluster) => {
  await cluster.apply(POD);
  await cluster.wait('pod/p', { condition: 'Ready' });
  // Follows them until both lines are there.
  await cluster.kubectl(['logs', '--follow', 'p', '--limit-bytes=8']);
  assert.equal(await cluster.logs('p'), 'one\ntwo\n');
  assert.equal(await cluster.logs('pod/p', { tail: 1, container: 'c' }), 'two\n');
  await cluster.apply(configMap('a'));
  await assert.rejects(cluster.logs('configmap/a'), { name: 'UsageError', message: /has no logs/ });
}));

test('kubectl acts in the namespace, and its failure has what it said', kstore.inNamespace(async (cluster) => {
  await cluster.kubectl(['apply', '-f', '-'], { input: JSON.stringify(configMap('a')) });
  assert.equal(await cluster.kubectl(['get', 'configmap', 'a', '-o', 'name']), 'configmap/a\n');
  await assert.rejects(cluster.kubectl(['get', 'configmap', 'b']), (error) => {
    assert.ok(error instanceof KstoreError);
    assert.match(error.message, /kubectl get configmap b ended with 1: .*"b" not found/);
    return true;
  });
  await assert.rejects(cluster.kubectl(['get', 'cm', '--watch'], { timeout: 500 }), { message: /has not ended after 500 ms/ });
}));

test('kubectl runs a command in a container', kstore.inNamespace(async (cluster) => {
  await cluster.apply(POD);
  await cluster.wait('pod/p', { condition: 'Ready' });
  assert.equal(await cluster.kubectl(['exec', 'p', '--', 'echo', 'inside']), 'inside\n');
}));

test('a service account has a kubeconfig with its own rights', kstore.inNamespace(async (cluster) => {
  await cluster.apply(configMap('a'));
  const file = await cluster.kubeconfigOf('op');
  assert.equal(fs.statSync(file).mode & 0o777, 0o600);
  const get = ['--kubeconfig', file, 'get', 'configmaps', '-o', 'name'];
  await assert.rejects(cluster.kubectl(get), {
    message: new RegExp(`"system:serviceaccount:${cluster.namespace}:op" cannot list resource "configmaps" .* "${cluster.namespace}"`),
  });
  await cluster.kubeconfigOf('op', { clusterRole: 'view' });
  assert.match(await cluster.kubectl(get), /^configmap\/a$/m);
}));

test('a serving certificate is for its names and trusted by the authority', kstore.inNamespace(async (cluster) => {
  const files = await cluster.servingCertificate();
  assert.equal(fs.statSync(files.key).mode & 0o777, 0o600);
  const options = { cert: fs.readFileSync(files.certificate), key: fs.readFileSync(files.key) };
  const server = https.createServer(options, (_, answer) => answer.end('served'));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const ca = Buffer.from(files.caBundle, 'base64');
  const fetched = (host) =>
    new Promise((resolve, reject) => {
      const request = https.get({ host, port: server.address().port, ca, agent: false }, (answer) => answer.on('data', resolve));
      request.on('error', reject);
    });
  try {
    assert.equal(String(await fetched('127.0.0.1')), 'served');
  } finally {
    server.close();
  }
  const other = await cluster.servingCertificate(['hooks.default.svc']);
  assert.equal(new X509Certificate(fs.readFileSync(other.certificate)).subjectAltName, 'DNS:hooks.default.svc');
  await assert.rejects(cluster.servingCertificate(['--help']), { name: 'UsageError', message: /host names and addresses/ });
}));

test('the YAML library of the project is found from a package that is a link to a folder', () => {
  const project = fs.mkdtempSync(path.join(os.tmpdir(), 'kstore-project-'));
  try {
    const library = path.join(project, 'node_modules', 'js-yaml');
    fs.mkdirSync(library, { recursive: true });
    fs.writeFileSync(path.join(library, 'index.js'), "exports.loadAll = (_, each) => each({ apiVersion: 'v1', kind: 'FromTheProject', metadata: { name: 'a' } });");
    const manifests = path.join(path.dirname(require.resolve('kstore')), 'manifests.js');
    const script = `console.log(JSON.stringify(require(${JSON.stringify(manifests)}).objectsOf('kind: A')))`;
    const said = execFileSync(process.execPath, ['-e', script], { cwd: project, encoding: 'utf8' });
    assert.equal(JSON.parse(said)[0].kind, 'FromTheProject');
  } finally {
    fs.rmSync(project, { recursive: true });
  }
});
