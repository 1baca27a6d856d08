// A program that the lab's server runs, so that plans can kill it and start it again. index.d.ts says what each method promises.
'use strict';

const os = require('node:os');
const { LoggedProgram } = require('./logged');
// Not those of a test runner's fake timers.
const { clearTimeout, setTimeout } = require('node:timers');

// How often the server is asked about a program, in real time.
const LOOK_MILLISECONDS = 250;
const WAIT_MILLISECONDS = 30_000;

class LabProgram extends LoggedProgram {
  #lab;
  #timer;
  #isStopped = false;
  #isAwaited = false;
  #hadPlans;
  #wakers = [];
  // What the server said last.
  #last;

  constructor(lab, { name, command, log, report, hadPlans }) {
    super('program', command, log);
    this.name = name;
    this.#lab = lab;
    this.#last = report;
    this.#hadPlans = hadPlans;
    this.#watch();
  }

  get pid() {
    return this.#last.process;
  }

  get incarnation() {
    return this.#last.incarnation;
  }

  get exitCode() {
    return this.#last.state === 'ended' ? this.#last.code : undefined;
  }

  get signal() {
    return this.#last.state === 'ended' ? nameOfSignal(this.#last.signal) : undefined;
  }

  async report() {
    if (!this.#isStopped) this.#last = await this.#lab.call('GET', this.#path());
    return this.#last;
  }

  async wait({ timeout = WAIT_MILLISECONDS } = {}) {
    const limit = performance.now() + timeout;
    while ((await this.report()).state !== 'ended') {
      if (performance.now() > limit) {
        throw this.notEnded(timeout);
      }
      await new Promise((resolve) => {
        setTimeout(resolve, LOOK_MILLISECONDS / 5);
      });
    }
    this.#isAwaited = true;
    return this.exitCode;
  }

  /** Throws OperatorDied if it has ended, as the server said last, and neither `stop`, `wait` nor a plan asked for that. */
  check() {
    if (!this.#hasDied()) return;
    const { exitCode, signal } = this;
    throw this.died(exitCode === undefined ? `was ended by ${signal}` : `ended with ${exitCode}`, exitCode, signal);
  }

  /** Calls `wake` once when it dies. */
  onDeath(wake) {
    if (this.#hasDied()) wake();
    else this.#wakers.push(wake);
  }

  async stop() {
    if (this.#isStopped) return;
    try {
      await this.report();
      if (!this.told) this.check();
    } finally {
      this.#isStopped = true;
      clearTimeout(this.#timer);
      await this.#lab.call('DELETE', `${this.#path()}?grace=10s`);
    }
  }

  #hasDied() {
    if (this.#last.state !== 'ended' || this.#isStopped || this.#isAwaited) return false;
    // Plans end programs by signals.
    return this.#last.code !== undefined || !this.#hadPlans();
  }

  #path() {
    return `/programs/${encodeURIComponent(this.name)}`;
  }

  #watch() {
    this.#timer = setTimeout(async () => {
      try {
        await this.report();
      } catch {
        // The cluster has ended.
        return;
      }
      if (this.#hasDied()) this.#wakers.splice(0).forEach((wake) => wake());
      if (!this.#isStopped) this.#watch();
    }, LOOK_MILLISECONDS);
    // A test process that is done may exit.
    this.#timer.unref();
  }
}

/** The name of a signal by its number. */
function nameOfSignal(number) {
  return Object.keys(os.constants.signals).find((name) => os.constants.signals[name] === number);
}

module.exports = { LabProgram };
