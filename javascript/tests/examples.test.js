// The worked examples of the book: an operator that makes an hourly CronJob for each Backup, and a record of each Job that has finished.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { useCluster } = require('kstore/node-test');

// A copy beside this file, or the folder of the checkout.
const CASES = ['cases', '../../lab/cases'].map((folder) => path.join(__dirname, folder)).find((folder) => fs.existsSync(folder));
const BACKUP = { apiVersion: 'example.com/v1', kind: 'Backup', metadata: { name: 'b' } };
const OPERATOR = ['sh', path.join(CASES, 'backup.sh')];

// The calls' ten seconds are of real time: tests wait for clients until the busiest machine is done.
const kstore = useCluster({ lab: { clock: 'manual', patience: '10m' }, nodes: 1, crds: { path: path.join(CASES, 'backups.yaml') } });

test('a backup an hour', kstore.inFork(async ({ cluster, lab }) => {
  await lab.program(OPERATOR, { name: 'backup' });
  await cluster.apply(BACKUP);
  await lab.settled();
  await lab.advance('2h');
  assert.equal((await cluster.list('configmaps', { labels: 'backup=b' })).length, 2);
}));

test('a lagging watch makes no second record', kstore.inFork(async ({ cluster, lab }) => {
  const operator = await lab.program(OPERATOR, { name: 'backup' });
  await cluster.apply(BACKUP);
  await lab.settled();
  const behind = await lab.cache('behind', { routes: [operator] }).freeze({ resources: ['configmaps'] });
  await lab.advance('1h');
  await behind.thaw();
  await lab.settled();
  assert.equal((await cluster.list('configmaps', { labels: 'backup=b' })).length, 1);
}));

test('a crash between record and status makes no second record', kstore.inFork(async ({ cluster, lab }) => {
  const operator = await lab.program(OPERATOR, { name: 'backup' });
  const plan = await lab.plan(lab.kill(operator).after('create', 'configmaps'));
  await cluster.apply(BACKUP);
  await lab.settled();
  await lab.advance('1h');
  assert.equal(await plan.wait({ timeout: 180_000 }), 'done');
  await lab.settled();
  assert.equal((await cluster.list('configmaps', { labels: 'backup=b' })).length, 1, await lab.explain('backup/b'));
  assert.equal((await operator.report()).incarnation, 1);
}));

test('what waits for a program that dies fails at once, with its last lines', kstore.inFork(async ({ cluster, lab }) => {
  await lab.program(['sh', '-c', 'kubectl create configmap up; echo farewell; exit 3'], { name: 'dies' });
  await assert.rejects(cluster.wait('configmap/never', { timeout: 120_000 }), /ended with 3; its last lines:[^]*farewell/);
}));
