// A program that acts on a cluster while tests run: an operator, a controller, a webhook's server.
//
// It runs in a session of its own, with a shell beside it that reads a pipe from here and kills all of that session when the pipe closes, as
// it does when this process is gone, however that came about.
'use strict';

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const { UsageError } = require('./errors');
const { LoggedProgram } = require('./logged');
const { within } = require('./process');

// The shell becomes the program, so that the process id and exit code are the program's.
const GUARD = 'exec 3<&0; { read -r _; kill -s KILL 0; } <&3 3<&- >/dev/null 2>&1 & exec "$@" </dev/null 3<&-';
// How long the program may take to end after SIGTERM, and after SIGKILL.
const END_MILLISECONDS = 10_000;
const WAIT_MILLISECONDS = 30_000;

/** The command, if it is one. */
function checked(command) {
  if (!Array.isArray(command) || command.length === 0) {
    throw new UsageError(`give the operator's command as an array, such as ['node', 'operator.js'], not ${JSON.stringify(command)}`);
  }
  return command;
}

/** A running program, made by `Cluster.operator`. */
class Operator extends LoggedProgram {
  #child;
  #ended;
  #died;
  #how;
  #isExpected = false;
  #stopped;

  constructor(command, { env, cwd, log }) {
    super('operator', checked(command), log);
    const output = fs.openSync(log, 'w');
    try {
      this.#child = spawn('sh', ['-c', GUARD, 'sh', ...command], { env, cwd, stdio: ['pipe', output, output], detached: true });
    } finally {
      fs.closeSync(output);
    }
    this.#ended = new Promise((resolve) => {
      const end = (how) => {
        this.#how = how;
        resolve();
      };
      this.#child.once('exit', (code, signal) => end({ code, signal }));
      this.#child.once('error', (error) => end({ code: null, signal: null, error }));
    });
    this.#died = this.#ended.then(() => this.hasDied);
    this.#child.stdin.on('error', () => {});
    // A test process that is done may exit although this one runs: then its pipe closes, and it ends.
    this.#child.unref();
    this.#child.stdin.unref();
  }

  get pid() {
    return this.#child.pid;
  }

  get exitCode() {
    return this.#how?.code ?? undefined;
  }

  get signal() {
    return this.#how?.signal ?? undefined;
  }

  /** Whether it has ended, and neither `stop()` nor `wait()` asked for that. */
  get hasDied() {
    return this.#how !== undefined && !this.#isExpected;
  }

  /** Calls back when it dies. */
  onDeath(callback) {
    this.#died.then((died) => died && callback());
  }

  /** Throws OperatorDied if it has died. */
  check() {
    if (!this.hasDied) return;
    const { code, signal, error } = this.#how;
    const how = error ? `cannot be run: ${error.message}` : signal ? `was ended by ${signal}` : `ended with ${code}`;
    throw this.died(how, code ?? undefined, signal ?? undefined);
  }

  async wait({ timeout = WAIT_MILLISECONDS } = {}) {
    const wasExpected = this.#isExpected;
    this.#isExpected = true;
    this.#child.ref();
    const isOver = await within(this.#ended, timeout);
    this.#child.unref();
    if (isOver) return this.exitCode;
    this.#isExpected = wasExpected;
    throw this.notEnded(timeout);
  }

  stop() {
    this.#stopped ??= this.#end();
    return this.#stopped;
  }

  async #end() {
    const mustTell = this.hasDied && !this.told;
    if (!this.hasDied) this.#isExpected = true;
    this.#child.ref();
    if (this.#how === undefined) {
      this.#child.kill('SIGTERM');
      await within(this.#ended, END_MILLISECONDS);
    }
    this.#child.stdin.end('\n');
    await within(this.#ended, END_MILLISECONDS);
    if (mustTell) this.check();
    this.#isExpected = true;
  }
}

module.exports = { Operator };
