// Compiled, never run: the types as a test file in TypeScript uses them.
import { mock } from 'node:test';
import { ApiError, Cluster, findServer, Lab, WaitTimeout, type Advanced, type ClusterOptions, type LabImage, type LabTimers, type KubernetesObject, type Manifest, type Operator, type ServingCertificate } from 'kstore';
import { useCluster as forJest } from 'kstore/jest';
import { useCluster as forNode } from 'kstore/node-test';
import { useCluster as forVitest } from 'kstore/vitest';

const options: ClusterOptions = { kubernetesVersion: '1.34', nodes: 1, components: ['apiserver'], crds: { path: 'crds' }, manifests: [new URL('file:///a.yaml'), '{}'] };
const manifest: Manifest = [{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' } }];
for (const fixture of [forNode(options), forJest(), forVitest({})]) {
  const body: () => Promise<void> = fixture.inNamespace(async (cluster) => {
    const [stored]: KubernetesObject[] = await cluster.apply(manifest, { namespace: 'b' });
    const found: KubernetesObject | undefined = await cluster.get(stored);
    const gone: undefined = await cluster.wait('configmap/a', { deleted: true });
    const ready: KubernetesObject = await cluster.wait('pod/a', { condition: 'Ready', timeout: 10 });
    const pods: KubernetesObject[] = await cluster.waitAll(await cluster.list('pods', { labels: { a: 'b' } }), { condition: 'Ready' });
    const patched: KubernetesObject = await cluster.patch(pods[0], [{ op: 'remove', path: '/data' }], { subresource: 'status' });
    const text: string = (await cluster.logs('p', { tail: 1 })) + (await cluster.kubectl(['get', 'pods'], { input: '' }));
    await cluster.scale(patched, 2);
    const { certificate, caBundle }: ServingCertificate = await cluster.servingCertificate(['localhost']);
    console.log(certificate, caBundle);
    const operator: Operator = await cluster.operator(['node', 'operator.js'], { serviceAccount: 'op', env: { A: 'b' } });
    console.log(operator.exitCode, operator.log().length, await operator.wait({ timeout: 1 }));
    await operator.stop();
    console.log(text, await cluster.events(patched), await cluster.kubeconfigOf('op'));
    console.log(found, gone, ready.metadata?.name, await cluster.explain('pod/a'), cluster.url.length);
  });
  await body();
}
const cluster = await Cluster.start(options);
// @ts-expect-error there is no such component
await Cluster.start({ components: ['kubelet'] });
// @ts-expect-error clusters come from start alone
new Cluster();
const token: string = await cluster.token({ clusterRole: null });
console.log(findServer(), token, (error: unknown) => error instanceof ApiError && error.code + error.reason.length, WaitTimeout);
const lab: Lab = await Lab.start({ clock: '60x', start: new Date(), seed: 7, patience: '10m', keep: 'kept', image: 'a.snapshot', ...options });
const fork: Lab = await lab.fork({ clock: 'manual' });
const advanced: Advanced = await fork.advance('1h', { patience: 200 });
const complete: KubernetesObject = await fork.wait('job/a', { condition: 'Complete', limit: '5m' });
const ended: undefined = await fork.wait('job/a', { deleted: true });
const image: LabImage = await fork.image('here');
await image.save('here.snapshot', { keys: true });
const kept: string[] = await fork.keep('a test', 'kept');
console.log(advanced.stops, complete, ended, kept, await (await lab.loadImage('there', 'here.snapshot')).fork());
// @ts-expect-error a clock is no number
await Lab.start({ clock: 60 });
const withLab: (context?: unknown) => Promise<void> = forNode({ lab: { clock: 'auto' } }).inFork(async ({ cluster, lab }) => {
  await lab.settled();
  await cluster.get('configmap/a');
});
console.log(withLab);

const timers: LabTimers = await lab.fakeTimers(mock.timers);
timers.stop();
