// The cases that the packages of all languages run (cases.yaml says what each step means).
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, test } = require('node:test');
const { load } = require('js-yaml');
const { ApiError, Lab, LabBusy } = require('kstore');

// A copy beside this file, or the file of the checkout.
const places = [path.join(__dirname, 'cases/cases.yaml'), path.join(__dirname, '../../lab/cases/cases.yaml')];
const { cases } = load(fs.readFileSync(places.find((place) => fs.existsSync(place)), 'utf8'));
// The cache and the plan of each cluster.
const caches = new Map();
const plans = new Map();
const UNITS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000 };

let lab;
before(async () => {
  lab = await Lab.start({ clock: 'manual', start: '2026-03-01T00:00:30Z', seed: 7, nodes: 1, patience: '10m' });
  await lab.settled();
});
after(() => lab?.stop());

for (const { name, fork = {}, steps } of cases) {
  test(name, async () => {
    const own = await lab.fork(fork);
    try {
      await run(own, steps, await own.now());
    } finally {
      await own.stop();
    }
  });
}

async function run(lab, steps, begin) {
  for (const step of steps) {
    const [[kind, given]] = Object.entries(step);
    assert.ok(Object.hasOwn(STEPS, kind), `no such step: ${kind}`);
    await STEPS[kind](lab, given, begin);
  }
}

/** Runs steps in a cluster of their own. */
async function within(other, steps, begin) {
  await run(other, steps, begin);
  await other.stop();
}

function has(found, wanted) {
  if (Array.isArray(wanted)) return Array.isArray(found) && wanted.every((part) => found.some((one) => has(one, part)));
  if (typeof wanted !== 'object' || wanted === null) return found === wanted;
  return typeof found === 'object' && found !== null && Object.entries(wanted).every(([name, part]) => has(found[name], part));
}

const STEPS = {
  apply: (lab, given) => lab.cluster.apply(given),
  delete: (lab, given) => lab.cluster.delete(given),
  settled: (lab) => lab.settled(),
  advance: (lab, given) => lab.advance(given),
  leap: (lab, given) => lab.leap(given),
  clock: (lab, { mode, factor, upTo }) => lab.setClock(mode, { factor, upTo }),
  wait: (lab, { object, condition, matches, limit }) => lab.wait(object, { condition, matches, limit }),
  client: (lab, { name, ...options }) => lab.client(name, options),
  program: (lab, { name, command }) => lab.program(command, { name }),
  stopNode: (lab, given) => lab.stopNode(given),
  startNode: (lab, given) => lab.startNode(given),
  nodeFault: (lab, { node, fault, ...options }) => lab.nodeFault(node, fault, options),
  async nodeFaults(lab, { node, are }) {
    assert.deepEqual((await lab.nodeFaults(node)).map(({ fault, state }) => [fault, state]), are);
  },
  healNode: (lab, { node, fault }) => lab.healNode(node, fault),
  async faults(lab, { seed, rules }) {
    const faults = lab.faults({ seed });
    for (const { fault, probability, ...which } of rules) faults.rule(fault, probability, which);
    await faults.set();
  },
  async cache(lab, { name, clients }) {
    caches.set(lab, lab.cache(name, { routes: clients }));
    await caches.get(lab).report();
  },
  freeze: (lab, { resources }) => caches.get(lab).freeze({ resources }),
  thaw: (lab) => caches.get(lab).thaw(),
  async plan(lab, { kill, after }) {
    plans.set(lab, await lab.plan(lab.kill(kill).after(...after)));
  },
  hits: async (lab, given) => assert.deepEqual((await lab.faults().counts()).map(({ hits }) => hits), given),
  planned: async (lab, given) => assert.equal(await plans.get(lab).wait({ timeout: 180_000 }), given),
  async incarnation(lab, { program, is }) {
    const found = lab.cluster.operators.find(({ name }) => name === program);
    await found.report();
    assert.equal(found.incarnation, is);
  },
  reset: (lab) => lab.reset(),
  fork: async (lab, { name, clock, steps }, begin) => within(await lab.fork({ name, clock }), steps, begin),
  async forks(lab, { count, steps }, begin) {
    for (const other of await lab.forks(count)) await within(other, steps, begin);
  },
  async image(lab, { name, steps, then }, begin) {
    const image = await lab.image(name);
    await run(lab, steps, begin);
    await within(await image.fork(), then, begin);
    await image.delete();
  },
  async passed(lab, given, begin) {
    const parts = [...given.matchAll(/(\d+)([dhms])/g)].map(([, number, unit]) => Number(number) * UNITS[unit]);
    assert.equal((await lab.now()) - begin, parts.reduce((sum, part) => sum + part, 0));
  },
  mode: async (lab, given) => assert.equal((await lab.clock()).mode, given),
  async count(lab, { resource, prefix = '', is }) {
    const names = (await lab.cluster.list(resource)).map((item) => item.metadata.name);
    assert.equal(names.filter((name) => name.startsWith(prefix)).length, is, names.join());
  },
  async at(lab, { resource, time }) {
    const times = (await lab.cluster.list(resource)).map((item) => item.metadata.creationTimestamp);
    assert.ok(times.length > 0 && times.every((one) => one.endsWith(time)), times.join());
  },
  async get(lab, { object, matches = {} }) {
    const found = await lab.cluster.get(object);
    assert.ok(found !== undefined && has(found, matches), JSON.stringify(found));
  },
  absent: async (lab, given) => assert.equal(await lab.cluster.get(given), undefined),
  async requests(lab, { codes, ...filters }) {
    assert.deepEqual((await lab.requests(filters)).map(({ code }) => code), codes);
  },
  async writes(lab, { resource, name, effects }) {
    const objects = (await lab.writes({ resource, name })).flatMap((write) => write.objects);
    assert.deepEqual(objects.filter((one) => one.name === name).map(({ effect }) => effect), effects);
  },
  async reads(lab, { client, resource }) {
    assert.ok(Object.hasOwn((await lab.view(client)).kinds, resource));
  },
  async busy(lab, { call, busy }) {
    const calls = {
      settled: () => lab.settled({ patience: 200 }),
      quiet: () => lab.quiet({ patience: 200 }),
      advance: () => lab.advance('1h', { patience: 200 }),
    };
    await assert.rejects(calls[call](), (error) => {
      assert.ok(error instanceof LabBusy, String(error));
      assert.deepEqual(error.busy, busy);
      return true;
    });
  },
  async reported(lab, given) {
    const report = await lab.report();
    assert.ok(report.split('\n').includes(given), report);
  },
  async refused(lab, { method, path, body, code, message }) {
    await assert.rejects(lab.call(method, path, body), (error) => {
      assert.ok(error instanceof ApiError && error.code === code && error.message.includes(message), String(error));
      return true;
    });
  },
};
