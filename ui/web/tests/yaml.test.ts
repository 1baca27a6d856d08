import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lines, scalar, toText } from '../src/yaml.ts';

const POD = {
  kind: 'Pod',
  apiVersion: 'v1',
  status: { phase: 'Running' },
  spec: { nodeName: 'node-1', containers: [{ name: 'a', image: 'nginx:2', args: ['-c', 'true'], env: [] }] },
  metadata: {
    name: 'web',
    labels: { app: 'web' },
    annotations: { text: 'one\ntwo\n' },
    managedFields: [
      { manager: 'kubectl', operation: 'Update', time: '2026-01-01T00:00:00Z', fieldsV1: { 'f:metadata': { 'f:labels': { 'f:app': {} } }, 'f:spec': { 'f:containers': { 'k:{"name":"a"}': { '.': {}, 'f:image': {}, 'f:args': {} } } } } },
      { manager: 'kube-scheduler', operation: 'Update', time: '2026-01-01T00:00:01Z', fieldsV1: { 'f:spec': { 'f:nodeName': {} } } },
      { manager: 'kubelet', operation: 'Update', subresource: 'status', time: '2026-01-01T00:00:02Z', fieldsV1: { 'f:status': { 'f:phase': {} } } },
    ],
  },
};

test('an object is printed as kubectl prints it', () => {
  assert.equal(
    toText(lines(POD)),
    `apiVersion: v1
kind: Pod
metadata:
  annotations:
    text: |
      one
      two
  labels:
    app: web
  name: web
spec:
  containers:
  - args:
    - "-c"
    - "true"
    env: []
    image: nginx:2
    name: a
  nodeName: node-1
status:
  phase: Running`,
  );
});

test('each line names the manager that set it', () => {
  const by = (path: string) => lines(POD).find((line) => line.path === path)?.owners.map((owner) => owner.manager);
  assert.deepEqual(by('metadata.labels.app'), ['kubectl']);
  assert.deepEqual(by('spec.containers[a].image'), ['kubectl']);
  assert.deepEqual(by('spec.nodeName'), ['kube-scheduler']);
  assert.deepEqual(by('status.phase'), ['kubelet']);
  assert.deepEqual(by('metadata.name'), []);
});

test('texts that YAML reads as something else are quoted', () => {
  for (const [text, expected] of [
    ['web', 'web'],
    ['nginx:2', 'nginx:2'],
    ['a: b', '"a: b"'],
    ['true', '"true"'],
    ['1.5', '"1.5"'],
    ['0x', '0x'],
    ['', '""'],
    ['- a', '"- a"'],
    ['a #b', '"a #b"'],
    ['\u001b', '"\\u001b"'],
    ['<script>', '"<script>"'],
  ]) {
    assert.equal(scalar(text), expected, text);
  }
});
