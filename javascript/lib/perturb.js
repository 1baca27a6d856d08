// What a lab can do to a cluster's clients: faults of requests, caches that lag, and plans of actions. index.d.ts says what each promises.
'use strict';

const { query } = require('./api');
const { KstoreError } = require('./errors');
// Not those of a test runner's fake timers.
const { setTimeout } = require('node:timers');

const WAIT_MILLISECONDS = 30_000;
// How often a plan is looked at, in real time.
const LOOK_MILLISECONDS = 50;

/** The name of a client in the lab: a program, or the name itself. */
const nameOf = (client) => (typeof client === 'string' || client === undefined ? client : client.name);

/** A number of milliseconds as the lab reads it, or a text. */
const duration = (value) => (typeof value === 'number' ? `${Math.round(value)}ms` : value);

/** Without members that are not given, as JSON has it. */
const given = (members) => JSON.parse(JSON.stringify(members));

const isEmpty = (object) => Object.keys(object).length === 0;

function selector({ client, agent, user }) {
  const chosen = given({ program: nameOf(client), agent, user });
  return isEmpty(chosen) ? undefined : chosen;
}

/** Rules that are collected, and set when they are awaited. */
class Faults {
  #lab;
  #seed;
  #rules = [];

  constructor(lab, seed) {
    this.#lab = lab;
    this.#seed = seed;
  }

  touch = (probability, which) => this.rule('touch', probability, which);
  tooMany = (probability, which) => this.rule('too-many', probability, which);
  errors = (probability, which) => this.rule('error', probability, which);
  unavailable = (probability, which) => this.rule('unavailable', probability, which);
  timeouts = (probability, { after, ...which } = {}) => this.rule('timeout', probability, { after: duration(after), ...which });
  lostAnswers = (probability, which) => this.rule('lost-answer', probability, which);
  slow = (probability, { by, upTo, ...which }) => this.rule('slow', probability, { for: duration(by), upTo: duration(upTo), ...which });
  cut = (probability, which) => this.rule('cut', probability, which);
  expire = (probability, which) => this.rule('expire', probability, which);
  staleLists = (probability, which) => this.rule('stale-lists', probability, which);
  conflicts = (probability, which) => this.rule('conflict', probability, { illegal: true, ...which });

  rule(fault, probability, { client, agent, user, verbs, resources, subresources, namespaces, names, ...parameters } = {}) {
    const request = given({ verbs, resources, subresources, namespaces, names });
    const rule = { fault, probability, client: selector({ client, agent, user }), request: isEmpty(request) ? undefined : request, ...parameters };
    this.#rules.push(given(rule));
    return this;
  }

  async set() {
    await this.#lab.call('PUT', '/faults', { seed: this.#seed, rules: this.#rules });
  }

  async counts() {
    return (await this.#lab.call('GET', '/faults/counts')).rules;
  }

  async clear() {
    this.#rules = [];
    await this.#lab.call('DELETE', '/faults');
  }
}

/** A cache that stands still when it is told to. */
class LabCache {
  #lab;
  #made;

  constructor(lab, name, { routes = [], window } = {}) {
    this.name = name;
    this.#lab = lab;
    this.#made = this.#make(routes, window);
    // Whoever awaits a method sees the failure.
    this.#made.catch(() => {});
  }

  async #make(routes, window) {
    await this.#lab.call('PUT', this.#path(), given({ window }));
    if (routes.length === 0) return;
    // A program has a name and a command; a route of the lab's API has neither.
    const isRoute = (route) => typeof route === 'object' && route.command === undefined;
    const added = routes.map((route) => ({ ...(isRoute(route) ? route : { client: selector({ client: route }) }), cache: this.name }));
    await this.#lab.call('PUT', '/routes', [...added, ...(await this.#lab.call('GET', '/routes'))]);
  }

  async freeze({ resources, at } = {}) {
    await this.#made;
    await this.#lab.call('POST', `${this.#path()}/freeze`, given({ resources, at }));
    return this;
  }

  async thaw({ resources, step } = {}) {
    await this.#made;
    await this.#lab.call('POST', `${this.#path()}/thaw`, given({ resources, step }));
    return this;
  }

  async report() {
    await this.#made;
    return this.#lab.call('GET', this.#path());
  }

  async delete() {
    await this.#made;
    await this.#lab.call('DELETE', this.#path());
  }

  #path() {
    return `/caches/${encodeURIComponent(this.name)}`;
  }
}

/** An action of a plan, with its trigger. */
class Action {
  #program;

  constructor(action, { program, ...parameters } = {}) {
    this.#program = nameOf(program);
    this.body = given({ action, program: this.#program, ...parameters });
  }

  after(verb, resource, which) {
    return this.#request('done', verb, resource, which);
  }

  before(verb, resource, which) {
    return this.#request('arrived', verb, resource, which);
  }

  #request(phase, verb, resource, { client = this.#program, ...which } = {}) {
    return this.when({ request: { client: nameOf(client), verb, resource, phase, ...which } });
  }

  atEvent(resource, { client = this.#program, ...which } = {}) {
    return this.when({ event: { client: nameOf(client), resource, ...which } });
  }

  atWrite(resource, { by, ...which } = {}) {
    return this.when({ write: { by: nameOf(by), resource, ...which } });
  }

  whenQuiet(client, { nth } = {}) {
    return this.when({ quiet: { client: nameOf(client), nth } });
  }

  atTime(after) {
    return this.when({ time: { after: duration(after) } });
  }

  when(trigger) {
    this.body.trigger = given(trigger);
    return this;
  }

  together() {
    this.body.with = 'previous';
    return this;
  }

  times(count) {
    this.body.times = count;
    return this;
  }
}

/** A running plan. */
class Plan {
  #lab;

  constructor(lab, { id }) {
    this.id = id;
    this.#lab = lab;
  }

  report() {
    return this.#lab.call('GET', this.#path());
  }

  async state() {
    return (await this.report()).state;
  }

  async wait({ timeout = WAIT_MILLISECONDS } = {}) {
    const limit = performance.now() + timeout;
    for (;;) {
      const { state, actions } = await this.report();
      if (state !== 'running') return state;
      if (performance.now() > limit) {
        const states = actions.map((one) => `${one.action.action} is ${one.state}`).join(', ');
        throw new KstoreError(`the plan ${this.id} still runs after ${timeout} ms: ${states}`);
      }
      await new Promise((resolve) => {
        setTimeout(resolve, LOOK_MILLISECONDS);
      });
    }
  }

  async events(since = 0) {
    return (await this.#lab.call('GET', query(`${this.#path()}/events`, { since }))).events;
  }

  async resume() {
    await this.#lab.call('POST', `${this.#path()}/resume`, {});
  }

  async step(name, phase = 'begin') {
    await this.#lab.call('POST', `${this.#path()}/steps`, { name, phase });
  }

  async end() {
    await this.#lab.call('DELETE', this.#path());
  }

  #path() {
    return `/plans/${encodeURIComponent(this.id)}`;
  }
}

module.exports = { Action, Faults, LabCache, Plan };
