// Streams of @kubernetes/client-node over WebSockets: exec, attach, port-forward, cp; logs; and usage.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough, Readable, Writable } from 'node:stream';
import { test } from 'node:test';
import { Attach, Cp, Exec, Log, Metrics, PortForward, topNodes, topPods } from '@kubernetes/client-node';
import { cluster, runningPod, until } from './cluster.js';

const server = await cluster();
const namespace = 'default';

const annotations = {
    'kubelet-sim.kstore.io/http': 'hello from main', 'kubelet-sim.kstore.io/cpu': '250m', 'kubelet-sim.kstore.io/memory': '64Mi',
    'kubelet-sim.kstore.io/logs': 'line one\nline two', 'kubelet-sim.kstore.io/log-line': 'tick {n}', 'kubelet-sim.kstore.io/log-every': '50ms',
  };
  await runningPod(server.core, 'main', { ports: [{ containerPort: 80 }], command: undefined }, annotations);

class Sink extends Writable {
  text = '';
  _write(chunk, _encoding, done) {
    this.text += chunk;
    done();
  }
}

async function exec(command, { stdin = null, tty = false, stdout = new Sink() } = {}) {
  const stderr = new Sink();
  let status;
  await new Exec(server.config).exec(namespace, 'main', 'main', command, stdout, tty ? null : stderr, stdin, tty, (one) => (status = one));
  await until(() => status, 'the exit of the command');
  return { out: stdout.text, err: stderr.text, status };
}

test('exec separates output, errors and the exit code', async () => {
  const { out, err, status } = await exec(['sh', '-c', 'echo out; echo err >&2; exit 3']);
  assert.deepEqual([out, err], ['out\n', 'err\n']);
  assert.equal(status.status, 'Failure');
  assert.deepEqual(status.details.causes, [{ reason: 'ExitCode', message: '3' }]);
  assert.equal((await exec('true')).status.status, 'Success');
});

test('exec reads standard input', async () => {
  const stdin = new PassThrough();
  const done = exec(['head', '-n', '1'], { stdin });
  stdin.write('first\nsecond\n');
  stdin.end();
  assert.equal((await done).out, 'first\n');
});

test('a terminal has the size of its stream, also after a resize', async () => {
  const stdout = new Sink();
  Object.assign(stdout, { rows: 24, columns: 80 });
  const stdin = new PassThrough();
  const done = exec(['sh'], { stdin, stdout, tty: true });
  await until(() => {
    stdin.write('stty size\n');
    return stdout.text.includes('24 80');
  }, 'the size');
  Object.assign(stdout, { rows: 40, columns: 120 });
  stdout.emit('resize');
  await until(() => {
    stdin.write('stty size\n');
    return stdout.text.includes('40 120');
  }, 'the new size');
  stdin.write('exit\n');
  assert.equal((await done).status.status, 'Success');
});

test('attach talks to the process of a container', async () => {
  await runningPod(server.core, 'shell', { stdin: true, command: ['sh'] });
  const [stdin, stdout] = [new PassThrough(), new Sink()];
  const socket = await new Attach(server.config).attach(namespace, 'shell', 'main', stdout, null, stdin, false);
  stdin.write('echo attached to $HOSTNAME; hostname\n');
  await until(() => stdout.text.includes('shell'), 'the answer');
  socket.close();
});

test('a forwarded port answers', async () => {
  const forward = new PortForward(server.config);
  const listener = net.createServer((socket) => {
    forward.portForward(namespace, 'main', [80], socket, null, socket).catch((error) => socket.destroy(error));
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const response = await fetch(`http://127.0.0.1:${listener.address().port}/`, { headers: { connection: 'close' } });
  assert.equal(response.status, 200);
  assert.match(await response.text(), /hello from main/);
  listener.close();
});

test('files are copied into a container and out of it', async () => {
  // The client sets modes and times of a file after its content, and nothing tells when it has done so: the folder is removed by the next
  // run only.
  const parent = path.join(tmpdir(), 'kstore-cp');
  rmSync(parent, { recursive: true, force: true });
  mkdirSync(parent);
  const folder = mkdtempSync(path.join(parent, 'files-'));
  const content = 'x'.repeat(100_000) + '\n';
  writeFileSync(path.join(folder, 'up.txt'), content);
  const cp = new Cp(server.config);
  await cp.cpToPod(namespace, 'main', 'main', folder, '/tmp');
  await until(async () => (await exec(['sh', '-c', 'wc -c < /tmp/up.txt'])).out.trim() === String(content.length), 'the copy');
  await exec(['sh', '-c', 'mkdir -p /data; echo down > /data/down.txt']);
  await cp.cpFromPod(namespace, 'main', 'main', 'down.txt', folder, '/data');
  await until(() => {
    try {
      return readFileSync(path.join(folder, 'down.txt'), 'utf8') === 'down\n';
    } catch {
      return false;
    }
  }, 'the file');
});

test('logs are read, limited and followed', async () => {
  const tail = await server.core.readNamespacedPodLog({ namespace, name: 'main', limitBytes: 9 });
  assert.equal(tail, 'line one\n');
  const sink = new Sink();
  // The limit ends the stream: the client throws an error that no test can catch when it is aborted.
  const options = { follow: true, tailLines: 1, timestamps: true, limitBytes: 300 };
  await new Log(server.config).log(namespace, 'main', 'main', sink, options);
  await once(sink, 'finish');
  assert.match(sink.text, /^\d{4}-\d\d-\d\dT\S+Z tick \d+\n\d{4}/);
  assert.equal(sink.text.length, 300);
});

test('usage of pods and nodes is reported', async () => {
  const metrics = new Metrics(server.config);
  const [pod] = await until(async () => {
    const found = await topPods(server.core, metrics, namespace).catch(() => []);
    return found.some((one) => one.Pod.metadata.name === 'main' && one.CPU.CurrentUsage > 0) &&
      found.filter((one) => one.Pod.metadata.name === 'main');
  }, 'usage');
  assert.equal(Number(pod.CPU.CurrentUsage), 0.25);
  assert.equal(Number(pod.Memory.CurrentUsage), 64 * 1024 * 1024);
  // Nodes register after the start.
  await until(async () => (await metrics.getNodeMetrics()).items.length === 3, 'usage of three nodes');
  const nodes = await topNodes(server.core);
  assert.equal(nodes.length, 3);
  assert.ok(nodes.every((one) => Number(one.CPU.Capacity) > 0));
});
