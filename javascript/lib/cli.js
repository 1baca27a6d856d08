#!/usr/bin/env node
// `npx kstore-server …` is `kstore-server …`, with its signals and its exit code.
'use strict';

const { spawn } = require('node:child_process');
const os = require('node:os');
const { findServer } = require('./binary');

const child = spawn(findServer(), process.argv.slice(2), { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('error', (error) => {
  console.error(error.message);
  process.exitCode = 1;
});
child.on('exit', (code, signal) => {
  process.exitCode = signal === null ? code : 128 + os.constants.signals[signal];
});
