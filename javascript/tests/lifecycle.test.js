// The server's process: it ends with its cluster, with the process that started it, and with nothing else.
'use strict';

const assert = require('node:assert/strict');
const { execFile, spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const path = require('node:path');
const readline = require('node:readline');
const { test } = require('node:test');
const { promisify } = require('node:util');
const { Cluster, StartError, findServer } = require('kstore');

const run = promisify(execFile);
const STARTS = `
  require('kstore').Cluster.start().then((cluster) => {
    console.log(cluster.pid, cluster.kubeconfig);
    if (process.argv[1] === 'wait') setInterval(() => {}, 1000);
  });`;

async function started(word) {
  const child = spawn(process.execPath, ['-e', STARTS, word], { cwd: __dirname, stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(readline.createInterface({ input: child.stdout }), 'line');
  const [pid, kubeconfig] = line.split(' ');
  return { child, pid: Number(pid), kubeconfig };
}

// tail ends when the process does.
const ended = (pid) => run('timeout', ['180', 'tail', `--pid=${pid}`, '-f', '/dev/null']);

test('stop ends its own server and files, and no other', async () => {
  const [stays, goes] = await Promise.all([Cluster.start(), Cluster.start()]);
  try {
    await goes.stop();
    assert.throws(() => process.kill(goes.pid, 0), { code: 'ESRCH' });
    assert.ok(!fs.existsSync(path.dirname(goes.kubeconfig)));
    assert.ok(await stays.get('namespace/default'));
    await goes.stop();
    await assert.rejects(goes.get('namespace/default'), /does not run/);
  } finally {
    await stays.stop();
  }
});

test('a killed process leaves neither server nor files', async () => {
  const { child, pid, kubeconfig } = await started('wait');
  assert.ok(fs.existsSync(kubeconfig));
  child.kill('SIGKILL');
  await ended(pid);
  assert.ok(!fs.existsSync(path.dirname(kubeconfig)));
});

test('a process that never calls stop ends, and its server with it', async () => {
  const { child, pid, kubeconfig } = await started('leave');
  if (child.exitCode === null) await once(child, 'exit');
  assert.equal(child.exitCode, 0);
  await ended(pid);
  assert.ok(!fs.existsSync(path.dirname(kubeconfig)));
});

test('parallel clusters do not collide', async () => {
  const clusters = await Promise.all(Array.from({ length: 6 }, () => Cluster.start({ nodes: 0 })));
  try {
    assert.equal(new Set(clusters.map((cluster) => cluster.url)).size, 6);
    const map = (index) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: `c${index}` } });
    await Promise.all(clusters.map((cluster, index) => cluster.apply(map(index))));
    for (const [index, cluster] of clusters.entries()) {
      const { items } = await cluster.request('GET', '/api/v1/namespaces/default/configmaps');
      const names = items.map((item) => item.metadata.name).filter((name) => name !== 'kube-root-ca.crt');
      assert.deepEqual(names, [`c${index}`]);
    }
  } finally {
    await Promise.all(clusters.map((cluster) => cluster.stop()));
  }
});

test('a program that a test starts finds the cluster', async () => {
  const cluster = await Cluster.start({ nodes: 1 });
  try {
    // It registers after the start.
    await cluster.wait('node/node-0', { timeout: 180_000 });
    assert.equal((await run('kubectl', ['get', 'nodes', '-o', 'name'], { env: cluster.env })).stdout, 'node/node-0\n');
  } finally {
    await cluster.stop();
  }
});

test('a start that fails shows the log', async () => {
  await assert.rejects(Cluster.start({ flags: ['--no-such-flag'] }), (error) => {
    assert.ok(error instanceof StartError);
    return /--no-such-flag/.test(error.message);
  });
  await assert.rejects(Cluster.start({ server: '/nowhere/kstore-server' }), /cannot run the server/);
});

test('a variable that names no program is an error', () => {
  const before = process.env.KSTORE_SERVER;
  process.env.KSTORE_SERVER = '/nowhere/kstore-server';
  try {
    assert.throws(findServer, /\/nowhere\/kstore-server/);
  } finally {
    if (before === undefined) delete process.env.KSTORE_SERVER;
    else process.env.KSTORE_SERVER = before;
  }
});

test('the command of the package is the program, with its exit code', async () => {
  const command = path.join(__dirname, 'node_modules', '.bin', 'kstore-server');
  assert.match((await run(command, ['--version'])).stdout, /^kstore-server /);
  await assert.rejects(run(command, ['run', '--', 'sh', '-c', 'exit 7']), { code: 7 });
});
