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

const RUNNERS = {
  'node:test': {
    file: 'sample.js',
    head: "const { test } = require('node:test'); const { useCluster } = require('kstore/node-test');",
    command: (file) => [process.execPath, '--test', file],
  },
  Jest: {
    file: 'sample.test.js',
    head: "const { useCluster } = require('kstore/jest');",
    command: (file) => [bin('jest'), '--rootDir', path.dirname(file), '--config', '{}', file],
  },
  'Jest without global hooks': {
    file: 'sample.test.js',
    head: "const hooks = require('@jest/globals'); const { test } = hooks; const useCluster = (options) => require('kstore/jest').useCluster(options, hooks);",
    command: (file) => [bin('jest'), '--rootDir', path.dirname(file), '--config', '{"injectGlobals": false}', file],
  },
  Vitest: {
    file: 'sample.test.mjs',
    head: "import { test } from 'vitest'; import { useCluster } from 'kstore/vitest';",
    command: (file) => [bin('vitest'), 'run', '--root', path.dirname(file)],
  },
};

const bin = (name) => path.join(__dirname, 'node_modules', '.bin', name);

for (const [name, { file, head, command }] of Object.entries(RUNNERS)) {
  test(`${name}: one passes, one fails with the last writes`, () => {
    // Inside of this folder, so that packages are found.
    const folder = fs.mkdtempSync(path.join(__dirname, 'run-'));
    try {
      const place = path.join(folder, file);
      fs.writeFileSync(place, `${head}\n${BODY}`);
      const environment = { ...process.env, NO_COLOR: '1', FORCE_COLOR: '0' };
      // node:test tells the processes that it starts so, which then do not report by themselves.
      delete environment.NODE_TEST_CONTEXT;
      const [program, ...words] = command(place);
      const { status, stdout, stderr } = spawnSync(program, words, { encoding: 'utf8', env: environment, timeout: 180_000 });
      const text = stdout + stderr;
      assert.equal(status, 1, text);
      assert.match(text, /on purpose/);
      assert.match(text, /kstore: last writes in this test/);
      assert.match(text, /created configmaps\/test-[0-9a-f]+\/made-by-the-test/);
      assert.match(text, /pass(ed)?\W+1|1 passed/, text);
      assert.match(text, /fail(ed)?\W+1|1 failed/, text);
    } finally {
      fs.rmSync(folder, { recursive: true });
    }
  });
}
