// The server's process: its start, and its end with this one.
//
// The server runs as `kstore-server run -- sh …`: it starts the shell when the cluster is ready and ends when the shell does. The shell
// reads its standard input, a pipe from here, and so ends when this process is gone, however that came about.
'use strict';

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
// Not those of a test runner's fake timers, which replace the global ones.
const { clearTimeout, setTimeout } = require('node:timers');
const { StartError } = require('./errors');

// What the server runs: $0 is the folder, which is removed here too, since the process that made it may have been killed.
const GUARD = 'echo ready; read -r _; rm -rf -- "$0"';
// How long each way of ending the server may take before the next one: its pipe, SIGTERM, SIGKILL.
const END_MILLISECONDS = 10_000;
// How much of the log an error shows.
const LOG_LINES = 20;

/** A running server. `directory` has its kubeconfig and its log; it goes with the server. */
class ServerProcess {
  /** Resolves when the cluster is ready. Rejects with StartError if the server ends, or is not ready in time. */
  static async start(program, flags, milliseconds) {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'kstore-'));
    const process = new ServerProcess(program, flags, directory);
    try {
      await process.#ready(milliseconds);
      return process;
    } catch (error) {
      await process.stop();
      throw error;
    }
  }

  #child;
  #exited;
  #stopped;

  constructor(program, flags, directory) {
    this.program = program;
    this.directory = directory;
    this.kubeconfig = path.join(directory, 'kubeconfig');
    const log = fs.openSync(path.join(directory, 'server.log'), 'w');
    const command = ['run', '--write-kubeconfig', this.kubeconfig, ...flags, '--', 'sh', '-c', GUARD, directory];
    try {
      // In a session of its own: Ctrl-C is for the tests, which then end the server in order.
      this.#child = spawn(program, command, { stdio: ['pipe', 'pipe', log], detached: true });
    } finally {
      fs.closeSync(log);
    }
    this.#exited = new Promise((resolve) => {
      this.#child.once('exit', resolve);
      this.#child.once('error', resolve);
    });
    // It has ended already when its pipe is broken.
    this.#child.stdin.on('error', () => {});
  }

  /** The server's process id. */
  get pid() {
    return this.#child.pid;
  }

  /** Whether the server still runs. */
  get isRunning() {
    return this.#child.pid !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** What the server has logged so far. */
  log() {
    try {
      return fs.readFileSync(path.join(this.directory, 'server.log'), 'utf8');
    } catch {
      return '';
    }
  }

  /** Ends the server and removes its folder; when it resolves both are gone. Does nothing more the second time. */
  stop() {
    this.#stopped ??= this.#end();
    return this.#stopped;
  }

  async #ready(milliseconds) {
    const failed = (text) => {
      const lines = this.log().trimEnd().split('\n').slice(-LOG_LINES);
      return new StartError([text, ...lines.filter((line) => line !== '')].join('\n  '));
    };
    const ended = this.#exited.then((how) => {
      throw failed(how instanceof Error ? `cannot run the server: ${how.message}` : 'the server ended at its start');
    });
    const timer = AbortSignal.timeout(milliseconds);
    const late = once(timer, 'abort').then(() => {
      throw failed(`the server was not ready after ${milliseconds} ms`);
    });
    ended.catch(() => {});
    late.catch(() => {});
    await Promise.race([once(this.#child.stdout, 'data'), ended, late]);
    // A test process that is done may exit although this one runs: then its pipe closes, and it ends.
    this.#child.unref();
    this.#child.stdin.unref();
    this.#child.stdout.unref();
  }

  async #end() {
    this.#child.ref();
    this.#child.stdin.end('\n');
    for (const signal of [undefined, 'SIGTERM', 'SIGKILL']) {
      if (signal !== undefined) this.#child.kill(signal);
      if (await within(this.#exited, END_MILLISECONDS)) break;
    }
    this.#child.stdout.destroy();
    fs.rmSync(this.directory, { recursive: true, force: true });
  }
}

/** Whether a promise resolves within so many milliseconds. */
async function within(promise, milliseconds) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, milliseconds, false);
  });
  const done = await Promise.race([promise.then(() => true), late]);
  clearTimeout(timer);
  return done;
}

module.exports = { ServerProcess, within };
