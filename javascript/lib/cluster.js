// A cluster: the server's process, and what tests ask of it. index.d.ts says what each method promises.
'use strict';

const { execFile } = require('node:child_process');
const { randomBytes } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { Api, MANAGER, query } = require('./api');
const { findServer } = require('./binary');
const { issue } = require('./certificate');
const { ApiError, KstoreError, UsageError, WaitTimeout } = require('./errors');
const { expectation } = require('./expectation');
const { objectsOf } = require('./manifests');
const { Operator } = require('./operator');
const { ServerProcess } = require('./process');
const { revisionsOf, traceText } = require('./trace');

const START_MILLISECONDS = 60_000;
// How long a CustomResourceDefinition may take to be served.
const ESTABLISH_MILLISECONDS = 30_000;
const WAIT_MILLISECONDS = 30_000;
// Kinds that explain nothing: heartbeats, and what tells of other writes.
const UNEXPLAINED = ['leases', 'events'];
// For how many writes the server says what changed.
const EXPLAINED_CHANGES = 200;
// How many trees and lines `lastWrites` has.
const LAST_TREES = 5;
const LAST_LINES = 60;
// How long one kubectl may take.
const KUBECTL_MILLISECONDS = 60_000;
// The server's states are read for 20 seconds at most.
const REPORT_MILLISECONDS = 40_000;
// How much it may print.
const KUBECTL_BYTES = 64 * 1024 * 1024;
const PATCHES = {
  merge: 'application/merge-patch+json',
  json: 'application/json-patch+json',
  strategic: 'application/strategic-merge-patch+json',
};
const RBAC = 'rbac.authorization.k8s.io';

class Cluster {
  #process;
  #api;
  #parent;
  // Where its files are.
  #folder;
  #isFork = false;
  #views = new Set();
  #operators = [];

  static async start(options = {}) {
    const { kubernetesVersion, nodes = 3, components, crds = [], manifests = [], server, flags = [], namespace = 'default' } = options;
    const all = ['--nodes', String(nodes), ...flags];
    if (components !== undefined) all.push('--components', components.join(','));
    if (kubernetesVersion !== undefined) all.push('--kubernetes-version', kubernetesVersion);
    const cluster = new Cluster();
    cluster.namespace = namespace;
    cluster.#process = await ServerProcess.start(server ?? findServer(), all, options.startTimeout ?? START_MILLISECONDS);
    try {
      cluster.#folder = cluster.#process.directory;
      cluster.kubeconfig = cluster.#process.kubeconfig;
      cluster.#api = new Api(cluster.kubeconfig);
      await cluster.apply(crds);
      await cluster.apply(manifests);
      return cluster;
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  /** The cluster of a fork in the lab of `first`, whose process it shares. */
  static ofFork(first, id, kubeconfig) {
    const fork = new Cluster();
    fork.namespace = first.namespace;
    fork.#process = first.#process;
    fork.#isFork = true;
    fork.#folder = path.join(first.#folder, `lab-${id}`);
    fs.mkdirSync(fork.#folder, { mode: 0o700, recursive: true });
    fork.kubeconfig = path.join(fork.#folder, 'kubeconfig');
    fs.writeFileSync(fork.kubeconfig, kubeconfig, { mode: 0o600 });
    fork.#api = new Api(fork.kubeconfig);
    return fork;
  }

  async stop() {
    try {
      await this.#stopOperators();
    } finally {
      this.#parent?.#views.delete(this);
      if (this.#parent === undefined) {
        this.#api?.close();
        if (!this.#isFork) await this.#process.stop();
      }
    }
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.stop();
  }

  get env() {
    return { ...process.env, KUBECONFIG: this.kubeconfig };
  }

  get url() {
    return this.#running().url;
  }

  get ca() {
    return this.#running().ca;
  }

  get pid() {
    return this.#process.pid;
  }

  log() {
    return this.#process.log();
  }

  async inNamespace(name) {
    this.#running();
    await this.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
    const view = new Cluster();
    view.namespace = name;
    view.#process = this.#process;
    view.#api = this.#api;
    view.#parent = this;
    view.#folder = this.#folder;
    this.#views.add(view);
    view.kubeconfig = path.join(this.#folder, `kubeconfig-${name}`);
    const text = fs.readFileSync((this.#parent ?? this).kubeconfig, 'utf8');
    const named = text.replace(/\n    cluster: \S+\n/, (line) => `${line}    namespace: ${name}\n`);
    fs.writeFileSync(view.kubeconfig, named, { mode: 0o600 });
    return view;
  }

  async token({ serviceAccount = 'kstore', namespace = this.namespace, clusterRole = 'cluster-admin' } = {}) {
    await this.apply({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: serviceAccount, namespace } });
    if (clusterRole !== null) {
      await this.apply({
        apiVersion: `${RBAC}/v1`,
        kind: 'ClusterRoleBinding',
        metadata: { name: `${namespace}:${serviceAccount}:${clusterRole}` },
        roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: clusterRole },
        subjects: [{ kind: 'ServiceAccount', name: serviceAccount, namespace }],
      });
    }
    const place = `/api/v1/namespaces/${encodeURIComponent(namespace)}/serviceaccounts/${encodeURIComponent(serviceAccount)}/token`;
    const answer = await this.request('POST', place, { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} });
    return answer.status.token;
  }

  async kubeconfigOf(serviceAccount, { namespace = this.namespace, clusterRole = null } = {}) {
    const token = await this.token({ serviceAccount, namespace, clusterRole });
    const file = path.join(this.#folder, `kubeconfig-of-${namespace}-${serviceAccount}`);
    const cluster = { server: this.url, 'certificate-authority-data': Buffer.from(this.ca).toString('base64') };
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'kstore', cluster }],
      users: [{ name: serviceAccount, user: { token } }],
      contexts: [{ name: 'kstore', context: { cluster: 'kstore', user: serviceAccount, namespace } }],
      'current-context': 'kstore',
    };
    // JSON is YAML.
    fs.writeFileSync(file, JSON.stringify(config, undefined, 2), { mode: 0o600 });
    return file;
  }

  async servingCertificate(names = ['localhost', '127.0.0.1', '::1']) {
    this.#running();
    const folder = path.join(this.#process.directory, `certificate-${randomBytes(8).toString('hex')}`);
    return issue(this.#process.program, this.kubeconfig, folder, names);
  }

  async report(file, { since, title, failure = '' } = {}) {
    this.#running();
    const args = ['report', file, '--kubeconfig', this.kubeconfig];
    if (since !== undefined) args.push('--since', String(since));
    if (this.#parent !== undefined) args.push('-n', this.namespace);
    if (title !== undefined) args.push('--title', title);
    if (failure !== '') args.push('--failure', '-');
    await new Promise((resolve, reject) => {
      const options = { timeout: REPORT_MILLISECONDS, killSignal: 'SIGKILL' };
      const child = execFile(this.#process.program, args, options, (error, _, stderr) => (error === null ? resolve() : reject(new KstoreError(`no report: ${stderr.trim() || error.message}`))));
      // A program that ends before it has read all of it says why itself.
      child.stdin.on('error', () => {});
      child.stdin.end(failure);
    });
    return file;
  }

  async kubectl(args, { input = '', timeout = KUBECTL_MILLISECONDS } = {}) {
    this.#running();
    const shown = ['kubectl', ...args].join(' ');
    return new Promise((resolve, reject) => {
      const options = { env: this.env, timeout, killSignal: 'SIGKILL', maxBuffer: KUBECTL_BYTES };
      const child = execFile('kubectl', args, options, (error, stdout, stderr) => {
        if (error === null) resolve(stdout);
        else if (error.code === 'ENOENT') reject(new UsageError('there is no kubectl on PATH'));
        else if (typeof error.code === 'number') reject(new KstoreError(`${shown} ended with ${error.code}: ${stderr.trim()}`));
        else reject(new KstoreError(error.killed && !error.code ? `${shown} has not ended after ${timeout} ms` : `${shown}: ${error.message}`));
      });
      // It may end before it has read all.
      child.stdin.on('error', () => {});
      child.stdin.end(input);
    });
  }

  async operator(command, { env = {}, cwd, serviceAccount } = {}) {
    this.#running();
    const kubeconfig = serviceAccount === undefined ? this.kubeconfig : await this.kubeconfigOf(serviceAccount);
    const log = path.join(this.#process.directory, `operator-${randomBytes(8).toString('hex')}.log`);
    const started = new Operator(command, { env: { ...this.env, KUBECONFIG: kubeconfig, ...env }, cwd, log });
    this.#operators.push(started);
    return started;
  }

  /** A program of the lab counts as an operator: it ends with the cluster, and waits tell its death. */
  addProgram(program) {
    this.#operators.push(program);
  }

  get operators() {
    return [...this.#operators, ...(this.#parent?.operators ?? [])];
  }

  async request(method, place, body, contentType) {
    return this.#running().request(method, place, body, contentType);
  }

  /** Writes an answer of the lab into a file. */
  async labDownload(place, file, timeout) {
    return this.#running().download(place, file, timeout);
  }

  /** Sends a file to the lab. */
  async labUpload(place, file, timeout) {
    return this.#running().upload(place, file, timeout);
  }

  /** A request with a time limit and headers of its own, for the lab. */
  async labRequest(method, place, body, options) {
    return this.#running().request(method, place, body, undefined, undefined, options);
  }

  async apply(manifest, { namespace } = {}) {
    const api = this.#running();
    const applied = [];
    for (const object of objectsOf(manifest)) {
      const kind = await api.kindOf(object.apiVersion, object.kind);
      const { metadata } = object;
      const place = kind.path(metadata.namespace ?? namespace ?? this.namespace, metadata.name);
      const target = query(place, { fieldManager: MANAGER, force: true });
      let stored = await api.request('PATCH', target, object, 'application/apply-patch+yaml');
      if (kind.qualified === 'customresourcedefinitions.apiextensions.k8s.io') {
        stored = await this.wait(stored, { condition: 'Established', timeout: ESTABLISH_MILLISECONDS });
        await api.kinds();
      }
      applied.push(stored);
    }
    return applied;
  }

  async get(object, { namespace } = {}) {
    const { kind, place, name } = await this.#reference(object, namespace);
    try {
      return await this.request('GET', kind.path(place, name));
    } catch (error) {
      if (error instanceof ApiError && error.code === 404) return undefined;
      throw error;
    }
  }

  async delete(object, { namespace } = {}) {
    const { kind, place, name } = await this.#reference(object, namespace);
    await this.request('DELETE', kind.path(place, name));
  }

  async list(kind, { labels, fields, namespace = this.namespace, allNamespaces = false } = {}) {
    const found = await this.#running().kindNamed(kind);
    const isText = labels === undefined || typeof labels === 'string';
    const labelSelector = isText ? labels : Object.entries(labels).map((pair) => pair.join('=')).join(',');
    const place = found.path(allNamespaces ? undefined : namespace);
    const { items } = await this.request('GET', query(place, { labelSelector, fieldSelector: fields }));
    return items.map((item) => found.named(item));
  }

  async patch(object, patch, { type = Array.isArray(patch) ? 'json' : 'merge', subresource, namespace } = {}) {
    if (!Object.hasOwn(PATCHES, type)) throw new UsageError(`the type of a patch is ${Object.keys(PATCHES).join(', ')}, not ${type}`);
    const { kind, place, name } = await this.#reference(object, namespace);
    const target = `${kind.path(place, name)}${subresource === undefined ? '' : `/${encodeURIComponent(subresource)}`}`;
    return this.request('PATCH', query(target, { fieldManager: MANAGER }), patch, PATCHES[type]);
  }

  async scale(object, replicas, { namespace } = {}) {
    await this.patch(object, { spec: { replicas } }, { type: 'merge', subresource: 'scale', namespace });
  }

  async logs(pod, { container, previous, tail, namespace } = {}) {
    const isName = typeof pod === 'string' && !pod.includes('/');
    const { kind, place, name } = await this.#reference(isName ? `pod/${pod}` : pod, namespace);
    if (kind.qualified !== 'pods') throw new UsageError(`${kind.kind} ${name} has no logs; give a pod`);
    const target = query(`${kind.path(place, name)}/log`, { container, previous, tailLines: tail });
    return this.#running().request('GET', target, undefined, undefined, '*/*');
  }

  async events(object, { namespace } = {}) {
    const { kind, place, name } = await this.#reference(object, namespace);
    const about = [`involvedObject.kind=${kind.kind}`, `involvedObject.name=${name}`];
    if (kind.namespaced) about.push(`involvedObject.namespace=${place}`);
    // Those about objects without a namespace are in the namespace default, or where their writer is.
    const found = await this.list('events', { fields: about.join(','), namespace: place, allNamespaces: !kind.namespaced });
    // Some writers leave the version out, where a kind is of the core group.
    const group = ({ involvedObject }) => (involvedObject.apiVersion ?? '').split('/').slice(0, -1).join('/');
    const revision = (event) => Number(event.metadata.resourceVersion);
    return found.filter((event) => group(event) === kind.group).sort((one, other) => revision(one) - revision(other));
  }

  async wait(object, options = {}) {
    const { timeout = WAIT_MILLISECONDS } = options;
    const expected = expectation(options);
    return this.#wait(await this.#reference(object, options.namespace), expected, options, performance.now() + timeout);
  }

  async waitAll(objects, options = {}) {
    const { timeout = WAIT_MILLISECONDS } = options;
    const expected = expectation(options);
    const deadline = performance.now() + timeout;
    const references = [];
    for (const object of objects) references.push(await this.#reference(object, options.namespace));
    const found = [];
    for (const reference of references) found.push(await this.#wait(reference, expected, options, deadline));
    return found;
  }

  async #wait({ kind, place, name }, { fits, wanted }, { timeout = WAIT_MILLISECONDS, deleted = false }, deadline) {
    const isDone = (found) => (found === undefined ? deleted : fits(found));
    const fieldSelector = `metadata.name=${name}`;
    // Fires when an operator dies: then a watch ends, and its death is told.
    const woken = new AbortController();
    this.operators.forEach((operator) => operator.onDeath(() => woken.abort()));
    let last;
    // Looked at once in any case: the last of several may have no time left.
    do {
      const list = await this.request('GET', query(kind.path(place), { fieldSelector }));
      last = list.items[0] && kind.named(list.items[0]);
      if (isDone(last)) return last;
      this.operators.forEach((operator) => operator.check());
      const parameters = { fieldSelector, watch: true, resourceVersion: list.metadata.resourceVersion };
      const rest = Math.max(1, Math.ceil(deadline - performance.now()));
      for await (const event of this.#running().watch(query(kind.path(place), parameters), rest, woken.signal)) {
        // The history that it continued from is gone: begin anew.
        if (event.type === 'ERROR') break;
        last = ['ADDED', 'MODIFIED'].includes(event.type) ? event.object : undefined;
        if (isDone(last)) return last;
      }
    } while (performance.now() < deadline);
    throw new WaitTimeout(await this.#timeoutText(kind, place, name, wanted, timeout, last), last);
  }

  async explain(object, { namespace } = {}) {
    const { kind, place, name } = await this.#reference(object, namespace);
    return traceText(await this.#trace(kind, place, name));
  }

  async revision() {
    return Number((await this.request('GET', '/api/v1/namespaces?limit=1')).metadata.resourceVersion);
  }

  async lastWrites(since = 0) {
    const shown = [];
    const told = new Set();
    for (const { kind, item } of await this.#changed(since)) {
      const writes = await this.#trace(kind, item.metadata.namespace, item.metadata.name);
      const later = writes.filter((write) => write.revision > since);
      const revisions = revisionsOf(later);
      if (revisions.every((revision) => told.has(revision))) continue;
      revisions.forEach((revision) => told.add(revision));
      shown.push(traceText(later));
      if (shown.length === LAST_TREES) break;
    }
    const lines = shown.join('\n').split('\n');
    if (shown.length === 0) return 'nothing was written';
    const rest = lines.length - LAST_LINES;
    return [...lines.slice(0, LAST_LINES), ...(rest > 0 ? [`… and ${rest} lines more`] : [])].join('\n');
  }

  /** Objects that were written after a revision: those without an owner first, as their trees have the others; newest first. */
  async #changed(since) {
    const api = this.#running();
    const found = new Map();
    for (const kind of await api.kinds()) {
      if (!kind.verbs.includes('list') || UNEXPLAINED.includes(kind.plural)) continue;
      // An aggregated API may be away; the others still explain.
      const list = await api.request('GET', kind.path()).catch((error) => {
        if (error instanceof ApiError) return { items: [] };
        throw error;
      });
      for (const item of list.items) {
        const key = item.metadata.uid ?? `${kind.qualified}/${item.metadata.name}`;
        if (Number(item.metadata.resourceVersion ?? 0) > since && !found.has(key)) found.set(key, { kind, item });
      }
    }
    const isOwned = ({ item }) => Number((item.metadata.ownerReferences ?? []).length > 0);
    const revision = ({ item }) => Number(item.metadata.resourceVersion);
    return [...found.values()].sort((one, other) => isOwned(one) - isOwned(other) || revision(other) - revision(one));
  }

  /** Of its namespaces, too. Rejects with OperatorDied at the end if one had died and nothing has told so. */
  async #stopOperators() {
    const ends = [...this.#operators.map((operator) => operator.stop()), ...[...this.#views].map((view) => view.#stopOperators())];
    this.#operators = [];
    this.#views.clear();
    const failed = (await Promise.allSettled(ends)).find((end) => end.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  }

  async #trace(kind, namespace, name) {
    const place = kind.namespaced ? namespace : undefined;
    try {
      return (await this.request('GET', query('/kstore/v1/trace', { resource: kind.qualified, namespace: place, name, changes: EXPLAINED_CHANGES }))).writes;
    } catch (error) {
      if (error instanceof ApiError && error.code === 404) return [];
      throw error;
    }
  }

  async #timeoutText(kind, namespace, name, wanted, timeout, last) {
    const what = `${kind.singular || kind.plural}/${name}${kind.namespaced ? ` in ${namespace}` : ''}`;
    const part = last?.status === undefined ? 'state' : 'status';
    const hidden = (name, value) => (name === 'managedFields' ? undefined : value);
    const shown = JSON.stringify(last?.status ?? last, hidden, 2);
    const state = last === undefined ? 'it does not exist' : `its ${part} is\n${shown.slice(0, 4000)}`;
    const trace = traceText(await this.#trace(kind, namespace, name));
    const output = this.operators.map((one) => `\nLast lines of the operator \`${one.command.join(' ')}\`:\n${one.logEnd()}`);
    return `${what} was not ${wanted} after ${timeout} ms: ${state}\nWhat led there:\n${trace}${output.join('')}`;
  }

  /** An object as the lab names it, and how its answers are named. */
  async labReference(object, namespace) {
    const { kind, place, name } = await this.#reference(object, namespace);
    const reference = [kind.qualified, ...(kind.namespaced ? [place] : []), name].join('/');
    return { reference, named: (found) => kind.named(found) };
  }

  async #reference(object, namespace) {
    const api = this.#running();
    if (typeof object === 'string') {
      const [word, name, ...more] = object.split('/');
      if (!word || !name || more.length > 0) {
        throw new UsageError(`say which object as KIND/NAME, for example deployment/web, not ${object}`);
      }
      return { kind: await api.kindNamed(word), place: namespace ?? this.namespace, name };
    }
    const { apiVersion, kind, metadata } = object ?? {};
    if (!apiVersion || !kind || !metadata?.name) {
      throw new UsageError(`the object needs apiVersion, kind and metadata.name, or give KIND/NAME: ${JSON.stringify(object)}`);
    }
    return { kind: await api.kindOf(apiVersion, kind), place: namespace ?? metadata.namespace ?? this.namespace, name: metadata.name };
  }

  #running() {
    if (!this.#process?.isRunning || this.#api === undefined) {
      throw new KstoreError('the cluster does not run: it was stopped, has ended by itself, or was ended by another process');
    }
    return this.#api;
  }
}

module.exports = { Cluster };
