// The REST API over TLS with Node's own modules: requests, discovery of kinds, and watches. Not a client for applications: those use
// @kubernetes/client-node.
'use strict';

const fs = require('node:fs');
const https = require('node:https');
const readline = require('node:readline');
const { pipeline } = require('node:stream/promises');
// Not those of a test runner's fake timers, which replace the global ones.
const { clearTimeout, setTimeout } = require('node:timers');
const { ApiError, KstoreError, UsageError } = require('./errors');

// How long one request may take; watches have their own limit.
const REQUEST_MILLISECONDS = 60_000;
// The name under which writes appear in managed fields and explanations.
const MANAGER = 'kstore-javascript';
const DISCOVERY = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';

/** A kind that the cluster serves, in one of its versions. */
class Kind {
  constructor(group, version, resource) {
    this.group = group;
    this.version = version;
    this.kind = resource.responseKind?.kind ?? '';
    this.plural = resource.resource;
    this.singular = resource.singularResource ?? '';
    this.shortNames = resource.shortNames ?? [];
    this.namespaced = resource.scope === 'Namespaced';
    this.verbs = resource.verbs ?? [];
  }

  /** As manifests have it: `v1`, `apps/v1`. */
  get apiVersion() {
    return this.group ? `${this.group}/${this.version}` : this.version;
  }

  /** `deployments.apps`, as the trace names kinds. */
  get qualified() {
    return this.group ? `${this.plural}.${this.group}` : this.plural;
  }

  /** The path of all objects of the kind (in a namespace), or of one. */
  path(namespace, name) {
    const root = this.group ? `/apis/${this.group}/${this.version}` : `/api/${this.version}`;
    const place = this.namespaced && namespace ? `/namespaces/${encodeURIComponent(namespace)}` : '';
    return `${root}${place}/${this.plural}${name ? `/${encodeURIComponent(name)}` : ''}`;
  }

  /** An item of a list, which does not say what it is, with its version and kind. */
  named(item) {
    return { apiVersion: this.apiVersion, kind: this.kind, ...item };
  }

  /** Whether a person who writes `word` may mean it; in lower case, without a group. */
  answersTo(word) {
    return [this.plural, this.singular, this.kind.toLowerCase(), ...this.shortNames].includes(word);
  }
}

/** The API of the server that a kubeconfig written by it names. */
class Api {
  #agent;
  #kinds = [];

  constructor(kubeconfig) {
    const text = fs.readFileSync(kubeconfig, 'utf8');
    this.url = field(text, 'server');
    this.ca = data(text, 'certificate-authority-data');
    this.#agent = new https.Agent({ ca: this.ca, cert: data(text, 'client-certificate-data'), key: data(text, 'client-key-data') });
  }

  /** The decoded answer; rejects with ApiError for one that is no success. */
  async request(method, path, body, contentType = 'application/json', accept = 'application/json', { timeout = REQUEST_MILLISECONDS, headers, signal } = {}) {
    const limit = signal ?? AbortSignal.timeout(timeout);
    const answer = await this.#send(method, path, body, contentType, accept, limit, headers);
    const text = await textOf(answer);
    return (answer.headers['content-type'] ?? '').includes('json') ? JSON.parse(text) : text;
  }

  /** Writes the body of an answer into a file; rejects with ApiError for a refusal. */
  async download(path, file, timeout) {
    const answer = await this.#send('GET', path, undefined, undefined, '*/*', AbortSignal.timeout(timeout));
    await pipeline(answer, fs.createWriteStream(file));
  }

  /** Sends a file as the body of a PUT: the decoded answer; rejects with ApiError for a refusal. */
  async upload(path, file, timeout) {
    const body = fs.readFileSync(file);
    const answer = await this.#send('PUT', path, body, 'application/octet-stream', 'application/json', AbortSignal.timeout(timeout));
    return JSON.parse(await textOf(answer));
  }

  /** The events of a watch, to its end, to the time limit, or until `woken` (an AbortSignal) fires, at which it just ends. */
  async *watch(path, milliseconds, woken) {
    const limit = new AbortController();
    const end = () => limit.abort();
    const timer = setTimeout(end, milliseconds);
    woken.addEventListener('abort', end);
    if (woken.aborted) end();
    try {
      const answer = await this.#send('GET', path, undefined, undefined, 'application/json', limit.signal);
      try {
        for await (const line of readline.createInterface({ input: answer })) yield JSON.parse(line);
      } finally {
        answer.destroy();
      }
    } catch (error) {
      if (!limit.signal.aborted) throw error;
    } finally {
      clearTimeout(timer);
      woken.removeEventListener('abort', end);
    }
  }

  /** Every kind that is served now, those of the core group first. */
  async kinds() {
    const answers = await Promise.all(['/api', '/apis'].map((path) => this.request('GET', path, undefined, undefined, DISCOVERY)));
    this.#kinds = answers.flatMap((answer) =>
      answer.items.flatMap((group) =>
        (group.versions ?? []).flatMap((version) =>
          (version.resources ?? []).map((resource) => new Kind(group.metadata?.name ?? '', version.version, resource)),
        ),
      ),
    );
    return this.#kinds;
  }

  /** The kind that a manifest names. Rejects with UsageError if the cluster does not serve it. */
  kindOf(apiVersion, kind) {
    return this.#find(
      (found) => found.kind === kind && found.apiVersion === apiVersion,
      `${apiVersion} ${kind}`,
      // Another version of the same kind is nearer than another kind.
      (found) => (found.kind.toLowerCase() === kind.toLowerCase() ? [`${found.apiVersion} ${found.kind}`] : []),
    );
  }

  /** The kind that a person means, as kubectl takes it: deployment, deploy, deployments.apps. */
  kindNamed(word) {
    const [name, ...group] = word.toLowerCase().split('.');
    const wanted = group.join('.');
    return this.#find(
      (found) => found.answersTo(name) && (wanted === '' || wanted === found.group),
      word,
      (found) => [found.singular || found.kind.toLowerCase(), found.plural].filter((one) => areNear(one, name)),
    );
  }

  close() {
    this.#agent.destroy();
  }

  async #find(fits, shown, near) {
    const found = this.#kinds.find(fits) ?? (await this.kinds()).find(fits);
    if (found !== undefined) return found;
    const alike = this.#kinds.flatMap(near).sort((one, other) => distance(one, shown) - distance(other, shown));
    const meant = alike.length > 0 ? `, or did you mean ${alike[0]}?` : '';
    throw new UsageError(`the cluster has no kind ${shown}; apply its CustomResourceDefinition first${meant}`);
  }

  async #send(method, path, body, contentType, accept, signal, further = {}) {
    const headers = { Accept: accept, 'User-Agent': MANAGER, ...further };
    const text = body === undefined || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    if (text !== undefined) Object.assign(headers, { 'Content-Type': contentType, 'Content-Length': Buffer.byteLength(text) });
    const answer = await new Promise((resolve, reject) => {
      const request = https.request(new URL(path, this.url), { method, headers, agent: this.#agent, signal }, resolve);
      request.on('error', (error) => {
        reject(signal.aborted ? error : new KstoreError(`${method} ${path}: the server at ${this.url} does not answer: ${error.message}`));
      });
      request.end(text);
    });
    if (answer.statusCode >= 400) throw new ApiError(answer.statusCode, statusOf(await textOf(answer)), `${method} ${path}`);
    return answer;
  }
}

/** The path with a query of the parameters that are given. */
function query(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  return given.length > 0 ? `${path}?${new URLSearchParams(given)}` : path;
}

/** Whether one may be the other, misspelt. */
function areNear(one, other) {
  return distance(one, other) <= Math.floor(Math.max(one.length, other.length) / 4);
}

/** How many letters are to be added, left out or changed between two words. */
function distance(one, other) {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let i = 1; i <= one.length; i++) {
    const next = [i];
    for (let j = 1; j <= other.length; j++) {
      next.push(Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + Number(one[i - 1] !== other[j - 1])));
    }
    row = next;
  }
  return row[other.length];
}

async function textOf(answer) {
  const chunks = [];
  for await (const chunk of answer) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

function statusOf(text) {
  try {
    const status = JSON.parse(text);
    if (status !== null && typeof status === 'object') return status;
  } catch {
    // Not a Status; the text is all that is known.
  }
  return { message: text };
}

function field(kubeconfig, name) {
  // The server's own file: one of each, on a line of its own.
  const found = new RegExp(`^\\s*${name}: *"?([^\\s"]+)`, 'm').exec(kubeconfig);
  if (found === null) throw new KstoreError(`the kubeconfig has no ${name}`);
  return found[1];
}

function data(kubeconfig, name) {
  return Buffer.from(field(kubeconfig, name), 'base64').toString('utf8');
}

module.exports = { Api, MANAGER, query };
