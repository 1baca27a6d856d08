// Versions of Kubernetes. Runs against the installed package.
'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { Cluster, Lab, StartError } = require('kstore');
const { useCluster } = require('kstore/node-test');

const older = useCluster({ kubernetesVersion: '1.33', components: ['apiserver'] });
const minorOf = async (cluster) => (await cluster.request('GET', '/version')).minor;

test('a cluster and a lab have the version of Kubernetes that they are asked for', async () => {
  assert.equal(await minorOf(older.cluster), '33');
  const cluster = await Cluster.start({ kubernetesVersion: '1.34.2', components: ['apiserver'] });
  try {
    assert.equal(await minorOf(cluster), '34');
  } finally {
    await cluster.stop();
  }
  const lab = await Lab.start({ kubernetesVersion: '1.35', components: ['apiserver'] });
  try {
    assert.equal(await minorOf(lab.cluster), '35');
  } finally {
    await lab.stop();
  }
});

test('a version that is not served is told with those that are', async () => {
  await assert.rejects(Cluster.start({ kubernetesVersion: '1.12' }), (error) => {
    assert(error instanceof StartError);
    assert.match(error.message, /Kubernetes 1\.12 is not served: this program has 1\.\d+ to 1\.\d+/);
    return true;
  });
});
