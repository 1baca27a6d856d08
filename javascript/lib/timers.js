// A test runner's fake timers, moved by the clock of a lab's cluster.
'use strict';

const { query } = require('./api');
const { UsageError } = require('./errors');
// Not those that are faked.
const { setTimeout } = require('node:timers');

// The client that this process is in the lab while its timers follow the cluster's clock.
const PROCESS = 'kstore-javascript-clock';
// How often the server is asked whether it knows of a wait, and for how long at most, in real time.
const REGISTER_INTERVAL = 1;
const REGISTER_MILLISECONDS = 10_000;
// What vi and jest leave alone: a test's own requests need it.
const REAL = ['nextTick', 'queueMicrotask', 'setImmediate', 'clearImmediate', 'performance', 'hrtime'];
const FAKED = ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date'];

/** A moment of real time. */
function pause() {
  return new Promise((resolve) => {
    setTimeout(resolve, REGISTER_INTERVAL);
  });
}

/** How the fake timers of a runner are installed, moved and removed. */
function runnerOf(timers) {
  if (typeof timers?.enable === 'function' && typeof timers.tick === 'function') {
    return {
      install: (now) => timers.enable({ apis: ['setTimeout', 'setInterval', 'Date'], now }),
      move: async (by) => timers.tick(by),
      remove: () => timers.reset(),
    };
  }
  if (typeof timers?.useFakeTimers === 'function' && typeof timers.advanceTimersByTimeAsync === 'function') {
    // Vitest names what is faked, Jest what is not.
    const choice = typeof timers.stubGlobal === 'function' ? { toFake: FAKED } : { doNotFake: REAL };
    return {
      install: (now) => timers.useFakeTimers({ now, ...choice }),
      move: (by) => timers.advanceTimersByTimeAsync(by),
      remove: () => timers.useRealTimers(),
    };
  }
  throw new UsageError('fakeTimers takes `vi` of Vitest, `jest`, or `mock.timers` of node:test');
}

/** Fake timers that follow a cluster's clock: each is a wait at the server. */
class LabTimers {
  #lab;
  #runner;
  // When each timer that is not over is due, by its identifier, in milliseconds since 1970.
  #due = new Map();
  #isStopped = false;
  // Wakes the loop when the earliest timer has changed.
  #wake = () => {};
  #moving = Promise.resolve();
  // The timer for which the server is asked to wait, and a promise that it knows of that.
  #asked = { due: Infinity, registered: Promise.resolve() };

  static async start(lab, timers) {
    const started = new LabTimers();
    started.#lab = lab;
    started.#runner = runnerOf(timers);
    const now = await lab.now();
    await lab.client(PROCESS, { agent: PROCESS, process: process.pid });
    started.#runner.install(now.getTime());
    started.#observe();
    started.#follow().catch(() => started.stop());
    return started;
  }

  /** Removes the fake timers; the real ones are back. */
  stop() {
    if (this.#isStopped) return;
    this.#isStopped = true;
    this.#wake();
    this.#runner.remove();
  }

  /** Moves the fake time to that of the cluster. */
  sync() {
    const moved = this.#moving.then(async () => {
      if (this.#isStopped) return;
      const by = Math.floor((await this.#lab.now()).getTime()) - Date.now();
      if (by > 0 && !this.#isStopped) await this.#runner.move(by);
    });
    this.#moving = moved.catch(() => {});
    return moved;
  }

  /** Resolves when the server knows of the earliest timer: before a call that lets time pass. */
  async ready() {
    await this.#moving;
    while (!this.#isStopped && this.#asked.due !== this.#earliest()) await pause();
    await this.#asked.registered;
  }

  #earliest() {
    return Math.min(...this.#due.values());
  }

  /** Learns of every timer when it is made, and when it is over. */
  #observe() {
    const { setTimeout: once, setInterval: often, clearTimeout: clear, clearInterval: clearOften } = globalThis;
    const due = this.#due;
    const add = (id, delay) => {
      due.set(id, Date.now() + Math.max(1, Math.ceil(Number(delay) || 0)));
      this.#wake();
    };
    globalThis.setTimeout = (body, delay, ...given) => {
      const id = once((...values) => {
        due.delete(id);
        return body(...values);
      }, delay, ...given);
      add(id, delay);
      return id;
    };
    globalThis.setInterval = (body, delay, ...given) => {
      const id = often((...values) => {
        add(id, delay);
        return body(...values);
      }, delay, ...given);
      add(id, delay);
      return id;
    };
    const forget = (real) => (id) => {
      due.delete(id);
      this.#wake();
      return real(id);
    };
    globalThis.clearTimeout = forget(clear);
    globalThis.clearInterval = forget(clearOften);
  }

  /** Waits at the server for the earliest timer, again and again. */
  async #follow() {
    while (!this.#isStopped) {
      const changed = new Promise((resolve) => {
        this.#wake = resolve;
      });
      const earliest = this.#earliest();
      if (earliest === Infinity) {
        this.#asked = { due: Infinity, registered: Promise.resolve() };
        await changed;
        continue;
      }
      const abandoned = new AbortController();
      const there = this.#wait(earliest, abandoned.signal).then(() => true);
      there.catch(() => {});
      const registered = this.#registered(earliest);
      this.#asked = { due: earliest, registered };
      const isThere = await Promise.race([there, registered.then(() => changed).then(() => false)]);
      if (isThere) await this.sync();
      else abandoned.abort();
    }
  }

  #wait(due, signal) {
    return this.#lab.call('GET', query('/clock/wait', { until: new Date(due).toISOString() }), undefined, { signal });
  }

  /** Resolves when the server knows of a wait: from then on the clock cannot pass the time. */
  async #registered(due) {
    const limit = performance.now() + REGISTER_MILLISECONDS;
    while (!this.#isStopped && performance.now() < limit) {
      const { time, next } = await this.#lab.clock();
      if (Date.parse(time) >= due || (next && Date.parse(next.time) <= due)) return;
      await pause();
    }
  }
}

module.exports = { LabTimers };
