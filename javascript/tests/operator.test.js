// Programs that a cluster starts: their rights, their end, and what a failure tells of them. Runs against the installed package.
'use strict';

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const readline = require('node:readline');
const { test } = require('node:test');
const { setTimeout: delay } = require('node:timers/promises');
const { OperatorDied, WaitTimeout } = require('kstore');
const { useCluster } = require('kstore/node-test');

const configMap = (name) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name } });
// Say that they have started by an object. One then waits for its end; the other dies when the test says so, by its own watch.
const LIVES = ['sh', '-c', 'echo watching; kubectl create configmap started >/dev/null; exec kubectl get configmaps --watch >/dev/null'];
const DIES = ['sh', '-c', `echo watching; kubectl create configmap started >/dev/null
  kubectl wait --for=create configmap/die --timeout=120s >/dev/null; echo out of ideas >&2; exit 7`];
const WITHIN = { timeout: 60_000 };
// Its own limit would be an hour.
const FOREVER = { timeout: 3_600_000 };

const kstore = useCluster({ nodes: 0 });

/** Whether the process is gone within a minute. */
async function isGone(pid) {
  for (const deadline = performance.now() + 60_000; performance.now() < deadline; await delay(20)) {
    try {
      process.kill(pid, 0);
    } catch {
      return true;
    }
  }
  return false;
}

test('a wait fails at once when the operator dies', kstore.inNamespace(async (cluster) => {
  const operator = await cluster.operator(DIES);
  await cluster.wait('configmap/started', WITHIN);
  const waiting = cluster.wait('configmap/never', FOREVER);
  await cluster.apply(configMap('die'));
  await assert.rejects(waiting, (error) => {
    assert.ok(error instanceof OperatorDied);
    assert.match(error.message, /ended with 7; its last lines:\n {2}watching\n {2}out of ideas/);
    assert.deepEqual([error.exitCode, operator.exitCode], [7, 7]);
    return true;
  });
  // One that is dead already fails a wait, too, also one of a namespace of this one.
  const below = await cluster.inNamespace(`${cluster.namespace}-below`);
  await assert.rejects(below.wait('configmap/never', FOREVER), OperatorDied);
}));

test('a death that no wait has told fails the test at its end', async () => {
  const passing = kstore.inNamespace(async (cluster) => {
    const killed = await cluster.operator(['sh', '-c', 'kill -9 $$']);
    while (killed.signal === undefined) await cluster.get('configmap/a');
  });
  await assert.rejects(passing(), { name: 'OperatorDied', message: /was ended by SIGKILL; its last lines: it wrote nothing/ });
});

test('a failure has the last lines of the operator', async () => {
  const failing = kstore.inNamespace(async (cluster) => {
    await cluster.operator(LIVES);
    await cluster.wait('configmap/started', WITHIN);
    assert.equal(1, 2);
  });
  await assert.rejects(failing(), { message: /kstore: last lines of the operator sh -c .*\nwatching\n/ });
  const late = kstore.inNamespace(async (cluster) => {
    await cluster.operator(LIVES);
    await cluster.wait('configmap/started', WITHIN);
    await cluster.wait('configmap/never', { timeout: 500 });
  });
  await assert.rejects(late(), (error) => {
    assert.ok(error instanceof WaitTimeout);
    assert.equal(error.message.match(/^watching$/gm).length, 1);
    return true;
  });
});

test('stop ends it and what it started', kstore.inNamespace(async (cluster) => {
  const script = 'kubectl get configmaps --watch >/dev/null & echo $!; kubectl create configmap up >/dev/null; wait';
  const operator = await cluster.operator(['sh', '-c', script]);
  await cluster.wait('configmap/up', WITHIN);
  const child = Number(operator.log());
  process.kill(child, 0);
  await operator.stop();
  assert.equal(operator.signal, 'SIGTERM');
  assert.ok(await isGone(child));
  // It was asked to end: that is no failure.
  await assert.rejects(cluster.wait('configmap/never', { timeout: 100 }), WaitTimeout);
}));

test('a program that is to end is waited for', kstore.inNamespace(async (cluster) => {
  assert.equal(await (await cluster.operator(['sh', '-c', 'exit 3'])).wait(), 3);
  const lasting = await cluster.operator(LIVES);
  await assert.rejects(lasting.wait({ timeout: 100 }), { message: /has not ended after 100 ms/ });
}));

test('an operator of a killed process ends with it', async () => {
  const script = `const { Cluster } = require('kstore');
    Cluster.start({ nodes: 0 }).then(async (cluster) => {
      console.log((await cluster.operator(['kubectl', 'get', 'namespaces', '--watch'])).pid);
      setInterval(() => {}, 1000);
    });`;
  const child = spawn(process.execPath, ['-e', script], { cwd: __dirname, stdio: ['ignore', 'pipe', 'inherit'] });
  const [pid] = await once(readline.createInterface({ input: child.stdout }), 'line');
  child.kill('SIGKILL');
  assert.ok(await isGone(Number(pid)));
});

test('an operator acts with the rights of its service account', kstore.inNamespace(async (cluster) => {
  await cluster.operator(['kubectl', 'get', 'configmaps'], { serviceAccount: 'op' });
  const message = new RegExp(`"system:serviceaccount:${cluster.namespace}:op" cannot list`);
  await assert.rejects(cluster.wait('configmap/never', WITHIN), { name: 'OperatorDied', message });
}));

test('a command that is no array is a usage error', async () => {
  await assert.rejects(kstore.cluster.operator('node operator.js'), { name: 'UsageError', message: /as an array/ });
});
