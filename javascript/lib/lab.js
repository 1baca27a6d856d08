// The lab: clusters whose clock tests move, with forks, images and what their clients did. index.d.ts says what each method promises.
'use strict';

const { randomUUID } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { MANAGER, query } = require('./api');
const { Cluster } = require('./cluster');
const { ApiError, LabBusy, UsageError } = require('./errors');
const { Action, Faults, LabCache, Plan } = require('./perturb');
const { LabProgram } = require('./program');
const { LabTimers } = require('./timers');

// The variable that names the folder in which failed tests keep what shows the failure again.
const KEEP = 'KSTORE_KEEP';
const PREFIX = '/kstore/lab/v1';
// How long a call that lets time pass may take, in real time.
const CALL_MILLISECONDS = 3_600_000;

class Lab {
  #root;
  #forks = new Set();
  #stopped;
  #patience;
  #keep;
  #timers;
  #hadPlans = false;

  static async start(options = {}) {
    const { clock = 'manual', start, seed, image, log, clusters, crds = [], manifests = [], flags = [], nodes = 1, ...more } = options;
    const { patience, keep, ...rest } = more;
    const given = {
      '--lab-clock': clock,
      '--lab-start': start instanceof Date ? start.toISOString() : start,
      '--lab-seed': seed,
      '--lab-log': log,
      '--lab-clusters': clusters,
      '--lab-image': image,
    };
    const words = Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [name, String(value)]));
    const lab = new Lab();
    lab.#root = lab;
    lab.#patience = patience;
    lab.#keep = process.env[KEEP] || keep;
    lab.id = 'main';
    lab.cluster = await Cluster.start({ ...rest, nodes, flags: ['--lab', ...words, ...flags] });
    try {
      await lab.#introduce();
      await lab.cluster.apply(crds);
      await lab.cluster.apply(manifests);
      return lab;
    } catch (error) {
      await lab.stop();
      throw error;
    }
  }

  stop() {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop() {
    this.#timers?.stop();
    const ends = [...this.#forks].map((fork) => fork.stop());
    try {
      await Promise.all(ends);
    } finally {
      this.#root.#forks.delete(this);
      try {
        await this.cluster.stop();
      } finally {
        // A server that has ended has no forks.
        if (this.#root !== this) await this.#root.call('DELETE', `/clusters/${encodeURIComponent(this.id)}`).catch(() => {});
      }
    }
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.stop();
  }

  // What a test does is no work that time has to wait for: its calls are answered before they resolve.
  async #introduce() {
    await this.client(MANAGER, { counted: false });
  }

  async call(method, place, body, { signal } = {}) {
    // A repeated POST happens once.
    const headers = method === 'POST' ? { 'Idempotency-Key': randomUUID() } : {};
    try {
      return await this.cluster.labRequest(method, `${PREFIX}${place}`, body, { headers, timeout: CALL_MILLISECONDS, signal });
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 504) throw error;
      const causes = error.status.details?.causes ?? [];
      throw new LabBusy(error.status.message ?? error.message, causes.map((cause) => cause.message));
    }
  }

  clock() {
    return this.call('GET', '/clock');
  }

  async now() {
    return new Date((await this.clock()).time);
  }

  setClock(mode, { factor, upTo } = {}) {
    return this.call('PUT', '/clock', { mode, factor, upTo: duration(upTo) });
  }

  async advance(by, { to, next, patience = this.#patience, granule } = {}) {
    const until = to instanceof Date ? to.toISOString() : to;
    const body = { by: duration(by), to: until, next, patience: duration(patience), granule: duration(granule) };
    await this.#check();
    await this.#timers?.ready();
    const advanced = await this.call('POST', '/clock/advance', body);
    if (advanced.ended === 'busy') {
      const busy = advanced.busy.map(({ part, what, client }) => `${client ? `client ${client}` : part}: ${what}`);
      throw new LabBusy(`the clock stands at ${advanced.time}, since not all clients are quiet: ${busy.join('; ')}`, busy);
    }
    await this.#check();
    await this.#timers?.sync();
    return advanced;
  }

  async leap(by) {
    const advanced = await this.call('POST', '/clock/leap', { by: duration(by) });
    await this.#timers?.sync();
    return advanced;
  }

  sleep(time) {
    return this.call('GET', query('/clock/wait', { for: duration(time) }));
  }

  async settled({ limit, patience = this.#patience } = {}) {
    await this.#check();
    await this.#timers?.ready();
    const settled = await this.call('POST', '/settled', { limit: duration(limit), patience: duration(patience) });
    await this.#check();
    await this.#timers?.sync();
    return settled;
  }

  async fakeTimers(timers) {
    this.#timers?.stop();
    this.#timers = await LabTimers.start(this, timers);
    return this.#timers;
  }

  quiet({ patience = this.#patience } = {}) {
    return this.call('POST', '/quiet', { patience: duration(patience) });
  }

  async wait(object, { condition, matches, deleted, limit, patience = this.#patience, namespace } = {}) {
    const chosen = { condition, matches, deleted: deleted || undefined };
    // Without any it has to exist.
    if (Object.values(chosen).every((value) => value === undefined)) chosen.matches = {};
    const { reference, named } = await this.cluster.labReference(object, namespace);
    await this.#check();
    await this.#timers?.ready();
    const found = await this.call('POST', '/wait', { object: reference, ...chosen, limit: duration(limit), patience: duration(patience) });
    await this.#timers?.sync();
    return deleted ? undefined : named(found);
  }

  async stopNode(name) {
    await this.call('POST', `/nodes/${encodeURIComponent(name)}/stop`, {});
  }

  async startNode(name) {
    await this.call('POST', `/nodes/${encodeURIComponent(name)}/start`, {});
  }

  async nodeFault(name, fault, { value, after, duration: length, every } = {}) {
    const body = { fault, value, after: duration(after), duration: duration(length), every: duration(every) };
    return (await this.call('POST', `/nodes/${encodeURIComponent(name)}/faults`, body)).faults;
  }

  async nodeFaults(name) {
    return (await this.call('GET', `/nodes/${encodeURIComponent(name)}/faults`)).faults;
  }

  async healNode(name, fault) {
    await this.call('DELETE', query(`/nodes/${encodeURIComponent(name)}/faults`, { fault }));
  }

  fork(options = {}) {
    return this.#forked({ cluster: this.id }, options);
  }

  async forks(count) {
    const image = await this.image(`forks-${randomUUID().slice(0, 8)}`);
    const forks = [];
    for (let n = 0; n < count; n++) forks.push(await image.fork());
    await image.delete();
    return forks;
  }

  async image(name, { settled } = {}) {
    const { revision } = await this.call('POST', '/images', { name, settled });
    return this.#image(name, revision);
  }

  async loadImage(name, file) {
    const { revision } = await this.#root.cluster.labUpload(`${PREFIX}/images/${encodeURIComponent(name)}/file`, file, CALL_MILLISECONDS);
    return this.#image(name, revision);
  }

  #image(name, revision) {
    return {
      name,
      revision,
      save: (file, { keys } = {}) => {
        const place = query(`${PREFIX}/images/${encodeURIComponent(name)}/file`, { keys });
        return this.#root.cluster.labDownload(place, file, CALL_MILLISECONDS);
      },
      fork: (options = {}) => this.#forked({ image: name }, options),
      delete: () => this.#root.call('DELETE', `/images/${encodeURIComponent(name)}`),
    };
  }

  async #forked(from, { name, seed, clock, components, nodes }) {
    const root = this.#root;
    const answer = await root.call('POST', '/clusters', { from, name, seed, clock: clockOf(clock), components, nodes });
    const fork = new Lab();
    fork.#root = root;
    fork.#patience = this.#patience;
    fork.#keep = this.#keep;
    fork.id = answer.id;
    fork.cluster = Cluster.ofFork(root.cluster, answer.id, answer.kubeconfig);
    root.#forks.add(fork);
    await fork.#introduce();
    return fork;
  }

  async reset(to) {
    await this.#root.call('POST', `/clusters/${encodeURIComponent(this.id)}/reset`, { to });
    await this.#introduce();
  }

  client(name, { agent, user, process, counted, window, busy } = {}) {
    const match = agent === undefined && user === undefined ? undefined : { agent, user };
    return this.call('PUT', `/clients/${encodeURIComponent(name)}`, { match, process, counted, window: duration(window), busy });
  }

  async clients() {
    return (await this.call('GET', '/clients')).clients;
  }

  view(client) {
    return this.call('GET', `/clients/${encodeURIComponent(client)}/view`);
  }

  async requests(filters = {}) {
    return (await this.call('GET', query('/requests', filters))).requests;
  }

  async writes(filters = {}) {
    return (await this.call('GET', query('/writes', filters))).writes;
  }

  async program(command, { name, serviceAccount, env = {}, cwd = '.' }) {
    if (!Array.isArray(command) || command.length === 0) {
      throw new UsageError(`give the program's command as an array, such as ['node', 'operator.js'], not ${JSON.stringify(command)}`);
    }
    const log = path.join(path.dirname(this.cluster.kubeconfig), `program-${randomUUID()}.log`);
    const body = { name, command: command.map(String), env, folder: path.resolve(cwd), output: log };
    if (serviceAccount === undefined) {
      body.user = name;
    } else {
      const { namespace } = this.cluster;
      await this.cluster.apply({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: serviceAccount, namespace } });
      body.serviceAccount = `${namespace}/${serviceAccount}`;
    }
    const report = await this.call('POST', '/programs', body);
    const program = new LabProgram(this, { name, command, log, report, hadPlans: () => this.#hadPlans });
    this.cluster.addProgram(program);
    return program;
  }

  faults({ seed = 0 } = {}) {
    return new Faults(this, seed);
  }

  cache(name, options) {
    return new LabCache(this, name, options);
  }

  async plan(...actions) {
    this.#hadPlans = true;
    return new Plan(this, await this.call('POST', '/plans', { actions: actions.map(({ body }) => body) }));
  }

  kill(program, { start, cache } = {}) {
    return new Action('kill', { program, start, cache: typeof cache === 'object' ? cache.name : cache });
  }

  term(program, { start } = {}) {
    return new Action('term', { program, start });
  }

  pause(program, { until }) {
    return new Action('pause', { program, until });
  }

  action(name, parameters) {
    return new Action(name, parameters);
  }

  explain(object, options) {
    return this.cluster.explain(object, options);
  }

  async #check() {
    // What a program is now, and not when it was last looked at.
    await Promise.all(this.cluster.operators.map((operator) => operator.report?.()));
    this.cluster.operators.forEach((operator) => operator.check());
  }

  async report() {
    const clock = await this.clock();
    const lines = [`clock ${clock.mode} at ${clock.time}, ${clock.skew} from real time, ${clock.stops} stops`];
    for (const { name, counted, state, why } of await this.clients()) {
      if (counted) lines.push(`client ${name}: ${[state, ...why].join(': ')}`);
    }
    return [...lines, ...(await this.#perturbed())].join('\n');
  }

  /** The faults that hit, and the plans. */
  async #perturbed() {
    try {
      const [{ rules }, { plans }] = [await this.call('GET', '/faults/counts'), await this.call('GET', '/plans')];
      const states = ({ actions }) => actions.map(({ action, state }) => `${action.action} ${state}`).join(', ');
      return [
        ...rules.filter(({ hits }) => hits > 0).map(({ name, hits }) => `fault ${name}: ${hits} hits`),
        ...plans.map((plan) => `plan ${plan.id}: ${plan.state}: ${states(plan)}`),
      ];
    } catch (error) {
      // An older server has neither.
      if (error instanceof ApiError) return [];
      throw error;
    }
  }

  async keep(name, folder = this.#keep) {
    if (!folder) return [];
    fs.mkdirSync(folder, { recursive: true });
    const stem = path.join(folder, name.replace(/[^A-Za-z0-9_.-]+/g, '-'));
    const files = [`${stem}.snapshot`, `${stem}.requests.json`];
    const image = await this.image(`kept-${randomUUID().slice(0, 8)}`);
    try {
      await image.save(files[0]);
    } finally {
      await image.delete();
    }
    fs.writeFileSync(files[1], JSON.stringify(await this.requests(), undefined, 1));
    return files;
  }
}

/** Milliseconds as a number, or a text as the lab reads it. */
function duration(value) {
  return typeof value === 'number' ? `${Math.round(value)}ms` : value;
}

/** A clock as the command line writes it, as the body of a call. */
function clockOf(value) {
  if (typeof value !== 'string') return value;
  return value.endsWith('x') ? { mode: 'scaled', factor: Number(value.slice(0, -1)) } : { mode: value };
}

module.exports = { Lab };
