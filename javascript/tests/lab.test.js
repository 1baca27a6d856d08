// The lab: time that tests let pass, forks, and what their clients did.
'use strict';

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');
const { Lab, LabBusy } = require('kstore');
const { useCluster } = require('kstore/node-test');

// A CronJob that runs at each full hour.
const container = { name: 'a', image: 'a', command: ['true'] };
const template = { spec: { restartPolicy: 'Never', containers: [container] } };
const HOURLY = {
  apiVersion: 'batch/v1',
  kind: 'CronJob',
  metadata: { name: 'hourly' },
  spec: { schedule: '0 * * * *', successfulJobsHistoryLimit: 100, jobTemplate: { spec: { template } } },
};
const map = (name) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name } });

let lab;
before(async () => {
  lab = await Lab.start({ start: new Date('2026-03-01T00:00:30Z'), seed: 7 });
});
after(() => lab?.stop());

test('a day passes, and forks go their own ways', async () => {
  const fork = await lab.fork();
  await fork.cluster.apply(HOURLY);
  await fork.settled();
  const other = await fork.fork({ clock: '0.5x' });
  const begin = await fork.now();
  const advanced = await fork.advance('24h');
  assert.equal(advanced.ended, 'there');
  assert.equal(new Date(advanced.time) - begin, 24 * 3600 * 1000);
  const jobs = await fork.cluster.list('jobs');
  assert.equal(jobs.length, 24);
  assert.ok(jobs.every((job) => job.metadata.creationTimestamp.endsWith(':00:00Z')));
  assert.deepEqual(await other.cluster.list('jobs'), []);
  assert.equal((await other.clock()).mode, 'scaled');
  await other.stop();
  const made = await fork.writes({ resource: 'cronjobs.batch', limit: 5 });
  assert.ok(made.length > 0 && made[0].revision > 0, JSON.stringify(made));
  await fork.reset();
  assert.equal(await fork.cluster.get('cronjob/hourly'), undefined);
  await fork.stop();
});

test('what is busy is named', async () => {
  const fork = await lab.fork({ components: ['apiserver'] });
  await fork.client('worker', { agent: 'worker', busy: true });
  await assert.rejects(fork.settled({ patience: 200 }), (error) => {
    assert.ok(error instanceof LabBusy);
    assert.deepEqual(error.busy, ['client worker: says that it is busy']);
    return true;
  });
  await assert.rejects(fork.advance('1h', { patience: 200 }), /the clock stands/);
  assert.match(await fork.report(), /client worker: busy: says that it is busy/);
  await fork.stop();
});

const kstore = useCluster({ lab: { clock: 'manual' }, nodes: 0 });

test('a test has a fork', kstore.inFork(async ({ cluster, lab: own }) => {
  await cluster.apply(map('a'));
  await own.advance('1h');
  assert.equal(await kstore.cluster.get('configmap/a'), undefined);
}));

test('a failure has the clock', async () => {
  const fails = kstore.inFork(async ({ cluster }) => {
    await cluster.apply(map('a'));
    throw new Error('on purpose');
  });
  await assert.rejects(fails, /on purpose[^]*kstore: last writes in this test[^]*kstore: the lab\nclock manual at /);
});
