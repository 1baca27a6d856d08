// A kstore server for the tests of one file, and waiting with a limit. KSTORE_SERVER names the binary.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';

// Reached only if the condition never holds, also on a busy machine.
const WAIT_MILLISECONDS = 180_000;

/** Starts a server, which ends after the tests of the calling file. */
export async function cluster(...flags) {
  const folder = mkdtempSync(path.join(tmpdir(), 'kstore-javascript-'));
  const kubeconfig = path.join(folder, 'kubeconfig');
  const command = ['run', '--write-kubeconfig', kubeconfig, ...flags, '--', 'sh', '-c', 'echo ready; read -r _'];
  const child = spawn(process.env.KSTORE_SERVER, command, { stdio: ['pipe', 'pipe', 'inherit'] });
  after(async () => {
    child.stdin.end();
    if (child.exitCode === null) await once(child, 'exit');
    rmSync(folder, { recursive: true, force: true });
  });
  child.stdin.on('error', () => {});
  const [first] = await Promise.race([once(child.stdout, 'data'), once(child, 'exit')]);
  if (!String(first).startsWith('ready')) throw new Error('the server ended');
  // Clients that look for a kubeconfig themselves find this one.
  process.env.KUBECONFIG = kubeconfig;
  const config = new KubeConfig();
  config.loadFromDefault();
  return { config, core: config.makeApiClient(CoreV1Api) };
}

/** Calls `condition` until it returns something true, and returns that. */
export async function until(condition, what = String(condition)) {
  const end = Date.now() + WAIT_MILLISECONDS;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await delay(20);
  }
}

/** Creates a pod that sleeps, and waits until it runs. */
export async function runningPod(core, name, container = {}, annotations = {}) {
  const body = {
    metadata: { name, labels: { app: name }, annotations },
    spec: { containers: [{ name: 'main', image: 'busybox', command: ['sleep', '3600'], ...container }] },
  };
  await core.createNamespacedPod({ namespace: 'default', body });
  return until(async () => {
    const pod = await core.readNamespacedPod({ namespace: 'default', name });
    return pod.status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') && pod;
  }, `pod ${name}`);
}

/** A code and the reason of the Status in an error of the client. */
export function refusal(error) {
  const body = typeof error.body === 'string' ? JSON.parse(error.body) : error.body;
  return [error.code, body?.reason];
}
