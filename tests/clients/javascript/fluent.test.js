// kubernetes-fluent-client, the client below Pepr: server-side apply, filters, watches, kinds of its own, and admission webhooks
// that this process serves.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import https from 'node:https';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { GenericKind, K8s, RegisterKind, kind } from 'kubernetes-fluent-client';
import { cluster, runningPod, until } from './cluster.js';

const server = await cluster();
const namespace = 'default';

test('objects are applied, filtered, patched and deleted', async () => {
  const config = { metadata: { name: 'applied', namespace, labels: { fluent: 'yes' } }, data: { key: '1' } };
  const made = await K8s(kind.ConfigMap).Apply(config);
  assert.ok(made.metadata.managedFields.some((one) => one.operation === 'Apply'));
  const again = await K8s(kind.ConfigMap).Apply({ ...config, data: { other: '2' } });
  assert.deepEqual(again.data, { other: '2' });
  assert.equal((await K8s(kind.ConfigMap).InNamespace(namespace).WithLabel('fluent', 'yes').Get()).items.length, 1);
  const patch = [{ op: 'add', path: '/data/third', value: '3' }];
  const patched = await K8s(kind.ConfigMap, { name: 'applied', namespace }).Patch(patch);
  assert.deepEqual(patched.data, { other: '2', third: '3' });
  await K8s(kind.ConfigMap).InNamespace(namespace).Delete('applied');
  await assert.rejects(K8s(kind.ConfigMap).InNamespace(namespace).Get('applied'), (error) => error.status === 404);
});

test('deployments are scaled, pods logged and evicted', async () => {
  const labels = { app: 'fluent' };
  await K8s(kind.Deployment).Apply({
    metadata: { name: 'fluent', namespace },
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers: [{ name: 'web', image: 'nginx' }] } } },
  });
  await K8s(kind.Deployment).InNamespace(namespace).Scale(2, 'fluent');
  await until(async () => (await K8s(kind.Deployment).InNamespace(namespace).Get('fluent')).status?.readyReplicas === 2);
  await runningPod(server.core, 'talker', { command: ['sh', '-c', 'for i in $(seq 3); do echo round $i; done; sleep 3600'] });
  await until(async () => (await K8s(kind.Pod).InNamespace(namespace).Logs('talker')).includes('[pod/talker] round 3'));
  await K8s(kind.Pod).InNamespace(namespace).Evict('talker');
  await until(async () => K8s(kind.Pod).InNamespace(namespace).Get('talker').then(() => false, (error) => error.status === 404));
});

test('a watch sees objects of a kind that the program registers', async () => {
  class Gadget extends GenericKind {}
  RegisterKind(Gadget, { group: 'example.com', version: 'v1', kind: 'Gadget', plural: 'gadgets' });
  const schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
  await K8s(kind.CustomResourceDefinition).Apply({
    metadata: { name: 'gadgets.example.com' },
    spec: {
      group: 'example.com', scope: 'Namespaced', names: { plural: 'gadgets', kind: 'Gadget' },
      versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema }, subresources: { status: {} } }],
    },
  });
  await until(async () => K8s(Gadget).InNamespace(namespace).Get().then(() => true, () => false));
  const events = [];
  const watcher = K8s(Gadget).InNamespace(namespace).Watch((object, phase) => events.push(`${phase} ${object.metadata.name} ${object.spec.size}`));
  await watcher.start();
  const gadget = (size) => K8s(Gadget).Apply({ metadata: { name: 'g', namespace }, spec: { size } });
  await gadget(1);
  await gadget(2);
  await K8s(Gadget).PatchStatus({ metadata: { name: 'g', namespace }, spec: { size: 2 }, status: { ready: true } });
  await K8s(Gadget).InNamespace(namespace).Finalize('add', 'example.com/wait', 'g');
  await K8s(Gadget).InNamespace(namespace).Finalize('remove', 'example.com/wait', 'g');
  await K8s(Gadget).InNamespace(namespace).Delete('g');
  await until(() => events.at(-1) === 'DELETED g 2', 'the events');
  watcher.close();
  assert.deepEqual(events.slice(0, 2), ['ADDED g 1', 'MODIFIED g 2']);
});

test('webhooks of this process change and refuse objects', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'kstore-webhook-'));
  const [key, cert] = ['tls.key', 'tls.crt'].map((name) => path.join(folder, name));
  const request = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '1'];
  execFileSync('openssl', [...request, '-subj', '/CN=webhook', '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', cert], { stdio: 'ignore' });
  const seen = [];
  const listener = https.createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (incoming, answer) => {
    let text = '';
    incoming.on('data', (chunk) => (text += chunk));
    incoming.on('end', () => {
      const review = JSON.parse(text);
      const { uid, object, operation, dryRun } = review.request;
      seen.push([incoming.url.split('?')[0], operation, dryRun]);
      const response = incoming.url.startsWith('/mutate')
        ? {
          uid, allowed: true, patchType: 'JSONPatch',
          patch: Buffer.from(JSON.stringify([{ op: 'add', path: '/metadata/labels/mutated', value: 'yes' }])).toString('base64'),
        }
        : { uid, allowed: object.data?.forbidden === undefined, status: { code: 403, message: 'forbidden data' }, warnings: ['checked'] };
      answer.setHeader('content-type', 'application/json');
      answer.end(JSON.stringify({ apiVersion: review.apiVersion, kind: review.kind, response }));
    });
  });
  after(() => rmSync(folder, { recursive: true, force: true }));
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const webhook = (name, url) => ({
    name, admissionReviewVersions: ['v1'], sideEffects: 'None', failurePolicy: 'Fail', matchPolicy: 'Equivalent', timeoutSeconds: 30,
    clientConfig: { url: `https://127.0.0.1:${listener.address().port}${url}`, caBundle: readFileSync(cert).toString('base64') },
    rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE', 'UPDATE'], resources: ['configmaps'], scope: 'Namespaced' }],
    objectSelector: { matchLabels: { hooked: 'yes' } },
  });
  await K8s(kind.MutatingWebhookConfiguration).Apply({ metadata: { name: 'fluent' }, webhooks: [webhook('mutate.example.com', '/mutate')] });
  await K8s(kind.ValidatingWebhookConfiguration).Apply({ metadata: { name: 'fluent' }, webhooks: [webhook('validate.example.com', '/validate')] });
  const config = (name, data) => ({ metadata: { name, namespace, labels: { hooked: 'yes' } }, data });
  const made = await until(async () => {
    const object = await K8s(kind.ConfigMap).Apply(config('hooked', { key: '1' }));
    return object.metadata.labels.mutated && object;
  }, 'the mutation');
  assert.equal(made.metadata.labels.mutated, 'yes');
  await assert.rejects(K8s(kind.ConfigMap).Apply(config('refused', { forbidden: '1' })), (error) => {
    assert.equal(error.status, 403);
    assert.match(error.data.message, /admission webhook "validate.example.com" denied the request: forbidden data/);
    return true;
  });
  assert.ok(seen.some(([url, operation, dryRun]) => url === '/validate' && operation === 'CREATE' && dryRun === false));
  listener.closeAllConnections();
  listener.close();
});
