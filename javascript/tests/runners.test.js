// The helpers in the runners that they are for: each runs a file with one test that passes and one that fails.
'use strict';

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');

const BODY = `
const map = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'made-by-the-test' } };
const kstore = useCluster({ nodes: 1 });
test('passes', kstore.inNamespace(async (cluster) => {
  await cluster.apply(map);
}));
test('fails', kstore.inNamespace(async (cluster) => {
  await cluster.apply(map);
  throw new Error('on purpose');
}));
`;

const TIMERS = `
const kstore = useCluster({ lab: { patience: '10m' }, nodes: 0 });
test('fake timers follow the clock', kstore.inFork(async ({ lab }) => {
  const timers = await lab.fakeTimers(FAKE);
  const begin = Date.now();
  const seen = [];
  const often = setInterval(() => seen.push((Date.now() - begin) / 60_000), 20 * 60_000);
  await lab.advance('1h');
  clearInterval(often);
  timers.stop();
  if (seen.join() !== '20,40,60') throw new Error('at ' + seen);
}));
`;

const RUNNERS = {
  'node:test': {
    file: 'sample.js',
    head: "const { test } = require('node:test'); const { useCluster } = require('kstore/node-test');",
    fake: "require('node:test').mock.timers",
    command: (file) => [process.execPath, '--test', file],
  },
  Jest: {
    file: 'sample.test.js',
    head: "const { useCluster } = require('kstore/jest');",
    fake: 'jest',
    command: (file) => [bin('jest'), '--rootDir', path.dirname(file), '--config', '{}', file],
  },
  'Jest without global hooks': {
    file: 'sample.test.js',
    head: "const hooks = require('@jest/globals'); const { test } = hooks; const useCluster = (options) => require('kstore/jest').useCluster(options, hooks);",
    command: (file) => [bin('jest'), '--rootDir', path.dirname(file), '--config', '{"injectGlobals": false}', file],
  },
  Vitest: {
    file: 'sample.test.mjs',
    head: "import { test, vi } from 'vitest'; import { useCluster } from 'kstore/vitest';",
    fake: 'vi',
    command: (file) => [bin('vitest'), 'run', '--root', path.dirname(file)],
  },
};

const bin = (name) => path.join(__dirname, 'node_modules', '.bin', name);

/** Runs a sample in a runner: its exit code and all that it prints. */
function run({ file, head, command }, body) {
  // Inside of this folder, so that packages are found.
  const folder = fs.mkdtempSync(path.join(__dirname, 'run-'));
  try {
    const place = path.join(folder, file);
    fs.writeFileSync(place, `${head}\n${body}`);
    const environment = { ...process.env, NO_COLOR: '1', FORCE_COLOR: '0' };
    // node:test tells the processes that it starts so, which then do not report by themselves.
    delete environment.NODE_TEST_CONTEXT;
    const [program, ...words] = command(place);
    const { status, stdout, stderr } = spawnSync(program, words, { encoding: 'utf8', env: environment, timeout: 180_000 });
    return { status, text: stdout + stderr };
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

for (const [name, runner] of Object.entries(RUNNERS)) {
  test(`${name}: one passes, one fails with the last writes`, () => {
    const { status, text } = run(runner, BODY);
    assert.equal(status, 1, text);
    assert.match(text, /on purpose/);
    assert.match(text, /kstore: last writes in this test/);
    assert.match(text, /created configmaps\/test-[0-9a-f]+\/made-by-the-test/);
    assert.match(text, /pass(ed)?\W+1|1 passed/, text);
    assert.match(text, /fail(ed)?\W+1|1 failed/, text);
  });
  if (runner.fake === undefined) continue;
  test(`${name}: fake timers follow the clock of the lab`, () => {
    const { status, text } = run(runner, TIMERS.replace('FAKE', runner.fake));
    assert.equal(status, 0, text);
  });
}
