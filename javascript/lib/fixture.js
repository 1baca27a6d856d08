// What the helpers for the test runners share: one cluster for a file (or a describe block), and a namespace for each test.
'use strict';

const { randomBytes } = require('node:crypto');
const path = require('node:path');
const { Cluster } = require('./cluster');
const { OperatorDied, UsageError, WaitTimeout } = require('./errors');
const { Lab } = require('./lab');

/** Has a cluster started by the runner's hook before the tests and stopped by the one after them. */
function useClusterWith(beforeAll, afterAll, options) {
  let cluster;
  let lab;
  const { lab: wanted, ...rest } = options ?? {};
  const running = () => {
    if (cluster === undefined) throw new UsageError('the cluster of useCluster runs only while tests run: use it inside of them');
    return cluster;
  };
  beforeAll(async () => {
    if (wanted) {
      lab = await Lab.start({ ...rest, ...(wanted === true ? {} : wanted) });
      cluster = lab.cluster;
    } else {
      cluster = await Cluster.start(rest);
    }
  });
  afterAll(async () => {
    await (lab ?? cluster)?.stop();
    cluster = lab = undefined;
  });
  return {
    get cluster() {
      return running();
    },
    get lab() {
      running();
      if (lab === undefined) throw new UsageError('useCluster has a lab with the option `lab`, as in useCluster({ lab: true })');
      return lab;
    },
    inNamespace: (body) => (...[context]) => inOwnNamespace(running(), body, nameOf(context)),
    inFork(body) {
      return (...[context]) => inOwnFork(this.lab, body, nameOf(context));
    },
  };
}

/**
 * The name of a test, for what is kept of it. Runners give its context; for Jest a parameter would be a callback that it waits for, so that
 * functions take it as a rest.
 */
const nameOf = (context) => context?.name ?? context?.task?.name ?? globalThis.expect?.getState?.().currentTestName;

/** Runs the body with a view of a new namespace, and adds the last writes to the error that it fails with. */
async function inOwnNamespace(cluster, body, name = 'test') {
  const view = await cluster.inNamespace(`test-${randomBytes(4).toString('hex')}`);
  const since = await cluster.revision();
  try {
    return await body(view);
  } catch (error) {
    await explained(error, view, since, await reported(view, name, since, error));
    throw error;
  } finally {
    // After a failure no operator's death is told, since `explained` has its last lines.
    try {
      await view.stop();
    } finally {
      // A server that has ended has no namespaces; the failure of the test is what counts.
      await cluster.delete(`namespace/${view.namespace}`).catch(() => {});
    }
  }
}

/** Runs the body with a fork of its own, and adds the last writes and the lab to the error that it fails with. */
async function inOwnFork(first, body, name = 'test') {
  const lab = await first.fork();
  const { cluster } = lab;
  const since = await cluster.revision();
  try {
    return await body({ lab, cluster });
  } catch (error) {
    const text = await lab.report().catch((reason) => `it cannot be asked: ${reason.message}`);
    const kept = await lab.keep(`${name}-${lab.id}`).catch((reason) => [`nothing: ${reason.message}`]);
    const files = kept.length > 0 ? `\nkstore: kept; Lab.start({ image }) and --lab-image start from the snapshot\n${kept.join('\n')}\n` : '';
    // After what the lab says and keeps, whose request log this one would be in.
    await explained(error, cluster, since, `\nkstore: the lab\n${text}\n${files}${await reported(cluster, name, since, error, lab.id)}`);
    throw error;
  } finally {
    await lab.stop();
  }
}

/** Saves the page of a failed test's namespace or fork; what its error says about it. `place` tells apart tests of one name. */
async function reported(cluster, name, since, error, place = cluster.namespace) {
  const folder = process.env.KSTORE_REPORTS || '.kstore-reports';
  if (folder === 'off') return '';
  const stem = `${name}-${place}`.replace(/[^A-Za-z0-9_.-]+/g, '-');
  const failure = String(error?.stack ?? error);
  const text = await cluster.report(path.resolve(folder, `${stem}.html`), { since, title: name, failure }).then((file) => `${file}: open it in a browser`, (reason) => reason.message);
  return `\nkstore: report\n${text}\n`;
}

async function explained(error, cluster, since, more = '') {
  const told = error instanceof OperatorDied || error instanceof WaitTimeout;
  let output = '';
  for (const operator of cluster.operators) {
    // Its end belongs to this failure, which the end of the test need not tell once more.
    operator.told = true;
    if (!told) output += `\nkstore: last lines of the operator ${operator.command.join(' ')}\n${operator.logEnd()}\n`;
  }
  if (!(error instanceof Error) && typeof error?.message !== 'string') return;
  const text = await cluster.lastWrites(since).catch((reason) => `the cluster cannot be asked: ${reason.message}`);
  const before = error.message;
  const after = `${before}\n\nkstore: last writes in this test\n${text}\n${output}${more}`;
  const stack = error.stack;
  error.message = after;
  // Runners print one or the other.
  if (typeof stack === 'string') error.stack = stack.includes(before) ? stack.replace(before, () => after) : `${stack}\n${after}`;
}

module.exports = { useClusterWith };
