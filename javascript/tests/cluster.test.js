// A cluster's options, and what it gives to tests and to clients of @kubernetes/client-node. Runs against the installed package.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const zlib = require('node:zlib');
const { ApiError, Cluster, UsageError, WaitTimeout } = require('kstore');
const { useCluster } = require('kstore/node-test');

const CRDS = { path: path.join(__dirname, 'crds') };
const WIDGET = { apiVersion: 'example.com/v1', kind: 'Widget', metadata: { name: 'first' }, spec: {} };
const MAP = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data: { k: 'v' } };
const WEB = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
`;

const kstore = useCluster({ crds: CRDS, manifests: [WIDGET, WEB], nodes: 2 });
// client-node is a module, which this file can only import when it runs.
const client = () => import('@kubernetes/client-node');

test('definitions and manifests are there at the start', async () => {
  assert.deepEqual((await kstore.cluster.get('wd/first')).spec, { size: 3 });
});

test('client-node reads, and watches a deployment become available', async () => {
  const k8s = await client();
  const config = new k8s.KubeConfig();
  config.loadFromFile(kstore.cluster.kubeconfig);
  await kstore.cluster.wait('deployment/web', { condition: 'Available' });
  const core = config.makeApiClient(k8s.CoreV1Api);
  assert.equal((await core.listNode()).items.length, 2);
  const pods = await core.listNamespacedPod({ namespace: 'default', labelSelector: 'app=web' });
  assert.deepEqual(pods.items.map((pod) => pod.status.phase), ['Running', 'Running']);

  const seen = new Promise((resolve, reject) => {
    const options = { allowWatchBookmarks: true };
    new k8s.Watch(config)
      .watch('/api/v1/namespaces/default/configmaps', options, (type, object) => object.metadata.name === 'seen' && resolve(type), reject)
      .then((watch) => kstore.cluster.apply({ ...MAP, metadata: { name: 'seen' } }).then(() => watch));
  });
  assert.equal(await seen, 'ADDED');
});

test('client-node runs a command in a container', async () => {
  const k8s = await client();
  const { PassThrough } = require('node:stream');
  const config = new k8s.KubeConfig();
  config.loadFromFile(kstore.cluster.kubeconfig);
  await kstore.cluster.wait('deployment/web', { condition: 'Available' });
  const core = config.makeApiClient(k8s.CoreV1Api);
  const [pod] = (await core.listNamespacedPod({ namespace: 'default', labelSelector: 'app=web' })).items;
  const output = new PassThrough().setEncoding('utf8');
  const status = await new Promise((resolve, reject) => {
    const command = ['sh', '-c', 'echo from inside'];
    new k8s.Exec(config).exec('default', pod.metadata.name, 'web', command, output, null, null, false, resolve).catch(reject);
  });
  assert.equal(status.status, 'Success');
  assert.equal(output.read(), 'from inside\n');
});

test('URL, authority and token are enough for a client', async () => {
  const k8s = await client();
  const config = new k8s.KubeConfig();
  const caData = Buffer.from(kstore.cluster.ca).toString('base64');
  config.loadFromClusterAndUser({ name: 'c', server: kstore.cluster.url, caData }, { name: 'u', token: await kstore.cluster.token() });
  assert.ok((await config.makeApiClient(k8s.CoreV1Api).listNamespace()).items.length > 0);

  const token = await kstore.cluster.token({ serviceAccount: 'nobody', clusterRole: null });
  config.loadFromClusterAndUser({ name: 'c', server: kstore.cluster.url, caData }, { name: 'u', token });
  await assert.rejects(config.makeApiClient(k8s.CoreV1Api).listNamespace(), { code: 403 });
});

test('each test has a namespace of its own', kstore.inNamespace(async (cluster) => {
  await cluster.apply(MAP);
  assert.equal(await kstore.cluster.get('configmap/a'), undefined);
  assert.match(cluster.namespace, /^test-/);
}));

test('a namespace goes with what is in it after its test', async () => {
  let namespace;
  await kstore.inNamespace(async (cluster) => {
    namespace = cluster.namespace;
    await cluster.apply(MAP);
  })();
  await kstore.cluster.wait(`namespace/${namespace}`, { deleted: true });
  assert.equal(await kstore.cluster.get('configmap/a', { namespace }), undefined);
});

/** What a report says about itself: the first chunk of its data, after a line of 16 bytes and its own head of 12. */
function aboutReport(file) {
  const data = Buffer.from(/id="kstore-report">([^<]*)</.exec(fs.readFileSync(file, 'utf8'))[1], 'base64');
  assert.equal(data.toString('latin1', 0, 24), 'KSTORE-REPORT 1\nmeta    ');
  return JSON.parse(zlib.inflateSync(data.subarray(28, 28 + data.readUInt32LE(24))).toString());
}

test('a failure in a namespace tells the writes of that test alone', async () => {
  await kstore.cluster.apply({ ...MAP, metadata: { name: 'earlier' } });
  const failing = kstore.inNamespace(async (cluster) => {
    await cluster.apply({ ...MAP, metadata: { name: 'later' } });
    assert.equal(1, 2);
  });
  await assert.rejects(failing(), (error) => {
    assert.match(error.message, /kstore: last writes in this test/);
    const report = /kstore: report\n(.*\.html): open it/.exec(error.message)[1];
    const { title, failure } = aboutReport(report);
    assert.match(title, /test/);
    assert.match(failure, /AssertionError[^]*1 !== 2/);
    fs.rmSync(report);
    assert.match(error.message, /\(kstore-javascript\) created configmaps\/test-.*\/later/);
    assert.match(error.stack, /\/later/);
    assert.doesNotMatch(error.message, /earlier/);
    return true;
  });
});

test('a wait that fails tells the state and what led there', kstore.inNamespace(async (cluster) => {
  await cluster.apply(MAP);
  await assert.rejects(cluster.wait('configmap/a', { matches: { data: { k: 'other' } }, timeout: 200 }), (error) => {
    assert.ok(error instanceof WaitTimeout);
    assert.deepEqual(error.last.data, { k: 'v' });
    assert.match(error.message, /created configmaps/);
    assert.ok(error.last.metadata.managedFields.length > 0);
    assert.doesNotMatch(error.message, /managedFields|f:data/);
    return true;
  });
}));

test('explain is the tree of what followed from a write', async () => {
  await kstore.cluster.wait('deployment/web', { condition: 'Available' });
  const text = await kstore.cluster.explain('deployment/web');
  assert.match(text, /\(kstore-javascript\) created deployments\/default\/web/);
  assert.match(text, /└─ \+0\.\d{3}s {2}#\d+ {2}deployment-controller/);
});

test('what the API refuses rejects with its status', async () => {
  await assert.rejects(kstore.cluster.apply({ ...WIDGET, spec: { size: 0 } }), (error) => {
    assert.ok(error instanceof ApiError);
    assert.deepEqual([error.code, error.reason], [422, 'Invalid']);
    return /spec\.size/.test(error.message);
  });
});

test('usage errors say what to do', async () => {
  await assert.rejects(kstore.cluster.get('gizmo/first'), { name: 'UsageError', message: /apply its CustomResourceDefinition first/ });
  await assert.rejects(kstore.cluster.get('web'), UsageError);
  await assert.rejects(kstore.cluster.wait('configmap/a', { condition: 'A', deleted: true }), UsageError);
  await assert.rejects(kstore.cluster.apply({ kind: 'ConfigMap' }), UsageError);
});

test('a misspelt kind or version is told the nearest', async () => {
  await assert.rejects(kstore.cluster.get('depoyment/web'), { message: /no kind depoyment; .* did you mean deployment\?/ });
  const old = { apiVersion: 'apps/v1beta1', kind: 'Deployment', metadata: { name: 'web' } };
  await assert.rejects(kstore.cluster.apply(old), { message: /did you mean apps\/v1 Deployment\?/ });
});

test('a broken file is named with its line', async (context) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'kstore-test-'));
  context.after(() => fs.rmSync(folder, { recursive: true }));
  const broken = path.join(folder, 'bad.yaml');
  fs.writeFileSync(broken, 'apiVersion: v1\nkind: a: b\n');
  await assert.rejects(kstore.cluster.apply({ path: folder }), { message: /bad\.yaml, line 2: neither JSON nor YAML: bad indentation/ });
  fs.writeFileSync(broken, 'kind: ConfigMap\n');
  await assert.rejects(kstore.cluster.apply([{ path: broken }]), { message: /bad\.yaml needs apiVersion/ });
});

test('an error without a reason has no blank for it', () => {
  assert.equal(new ApiError(418, { message: 'no' }, 'GET /x').message, 'GET /x: 418: no');
  assert.equal(new ApiError(404, { reason: 'NotFound', message: 'no' }, 'GET /x').message, 'GET /x: 404 NotFound: no');
});

test('without components but the apiserver no controller acts', async () => {
  const cluster = await Cluster.start({ components: ['apiserver'], nodes: 0, manifests: WEB });
  try {
    assert.deepEqual((await cluster.request('GET', '/apis/apps/v1/replicasets')).items, []);
    assert.deepEqual((await cluster.request('GET', '/api/v1/nodes')).items, []);
  } finally {
    await cluster.stop();
  }
});
