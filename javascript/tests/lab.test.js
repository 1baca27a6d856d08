// The lab: time that tests let pass, forks, and what their clients did.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, mock, test } = require('node:test');
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
// The calls' ten seconds are of real time: tests wait for clients until the busiest machine is done.
const PATIENCE = '10m';
// Where failed tests keep their snapshots.
const KEPT = fs.mkdtempSync(path.join(os.tmpdir(), 'kept-'));
const map = (name) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name } });

let lab;
before(async () => {
  lab = await Lab.start({ start: new Date('2026-03-01T00:00:30Z'), seed: 7, patience: PATIENCE });
});
after(() => lab?.stop());

test('hours pass, and forks go their own ways', async () => {
  const fork = await lab.fork();
  await fork.cluster.apply(HOURLY);
  await fork.settled();
  const other = await fork.fork({ clock: '0.5x' });
  const begin = await fork.now();
  const advanced = await fork.advance('6h');
  assert.equal(advanced.ended, 'there');
  assert.equal(new Date(advanced.time) - begin, 6 * 3600 * 1000);
  const jobs = await fork.cluster.list('jobs');
  assert.equal(jobs.length, 6);
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

test('fake timers follow the clock of the cluster, in order', async () => {
  const fork = await lab.fork({ components: ['apiserver'] });
  const begin = await fork.now();
  const timers = await fork.fakeTimers(mock.timers);
  try {
    const seen = [];
    const note = (what) => seen.push([what, (Date.now() - begin) / 60_000]);
    const often = setInterval(() => note('often'), 20 * 60_000);
    setTimeout(() => {
      note('once');
      setTimeout(() => note('again'), 5 * 60_000);
    }, 30 * 60_000);
    clearTimeout(setTimeout(() => note('never'), 10 * 60_000));
    await fork.advance('45m');
    assert.deepEqual(seen, [['often', 20], ['once', 30], ['again', 35], ['often', 40]]);
    assert.equal(Date.now() - begin, 45 * 60_000);
    clearInterval(often);
    await fork.advance('1h');
    assert.equal(seen.length, 4);
  } finally {
    timers.stop();
  }
  assert.ok(Math.abs(Date.now() - begin) > 24 * 3600 * 1000, 'the real time is back');
  await assert.rejects(fork.fakeTimers({}), /takes `vi` of Vitest/);
  await fork.stop();
});

const kstore = useCluster({ lab: { clock: 'manual', patience: PATIENCE, keep: KEPT }, nodes: 0 });

test('a test has a fork', kstore.inFork(async ({ cluster, lab: own }) => {
  await cluster.apply(map('a'));
  await own.advance('1h');
  assert.equal(await kstore.cluster.get('configmap/a'), undefined);
}));

test('a failure has the clock, and a snapshot that starts again', async () => {
  after(() => fs.rmSync(KEPT, { recursive: true }));
  const fails = kstore.inFork(async ({ cluster }) => {
    await cluster.apply(map('kept'));
    throw new Error('on purpose');
  });
  const shown = /on purpose[^]*kstore: last writes in this test[^]*kstore: the lab\nclock manual at [^]*kstore: kept[^]*\.snapshot\n[^]*kstore: report\n.*\.html: open it/;
  await assert.rejects(fails({ name: 'a test: fails' }), shown);
  const files = fs.readdirSync(KEPT).map((name) => path.join(KEPT, name));
  assert.equal(files.length, 2, files.join());
  const [log, snapshot] = files.sort();
  assert.match(path.basename(snapshot), /^a-test-fails-.*\.snapshot$/);
  assert.ok(JSON.parse(fs.readFileSync(log, 'utf8')).some(({ resource }) => resource === 'configmaps'));
  const again = await Lab.start({ image: snapshot, components: ['apiserver'] });
  try {
    assert.ok(await again.cluster.get('configmap/kept'));
    const loaded = await again.loadImage('loaded', snapshot);
    assert.ok(await (await loaded.fork()).cluster.get('configmap/kept'));
  } finally {
    await again.stop();
  }
});
