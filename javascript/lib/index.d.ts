/** A Kubernetes-style control plane for tests, in memory and in a process of its own that ends with this one. */

/** A Kubernetes object as JSON has it. */
export interface KubernetesObject {
  apiVersion?: string;
  kind?: string;
  metadata?: { name?: string; namespace?: string; [field: string]: any };
  [field: string]: any;
}

/** An object; a text of JSON or YAML (which needs js-yaml); a file or folder as `{ path }` or file: URL; or an array of these. */
export type Manifest = KubernetesObject | string | { path: string } | URL | readonly Manifest[];

/** `KIND/NAME` as kubectl takes it, or an object that says what it is, such as a model of @kubernetes/client-node. */
export type Reference = string | { apiVersion?: string; kind?: string; metadata?: { name?: string; namespace?: string } };

export type Component = 'apiserver' | 'controllers' | 'scheduler' | 'kubelet-sim';

export interface ClusterOptions {
  /** Version of Kubernetes whose API is served, such as `1.34`; that of KSTORE_KUBERNETES_VERSION, else the default, if not given. */
  kubernetesVersion?: string;
  /** Number of simulated nodes; 3 if not given. */
  nodes?: number;
  /** Components that run; all if not given. */
  components?: readonly Component[];
  /** CustomResourceDefinitions that are applied, and served, at the start. */
  crds?: Manifest;
  /** Manifests that are applied at the start, after `crds`. */
  manifests?: Manifest;
  /** The program; see `findServer` for where it is otherwise. */
  server?: string;
  /** Further flags of `kstore-server run`. */
  flags?: readonly string[];
  /** Where objects without a namespace belong; `default` if not given. */
  namespace?: string;
  /** Milliseconds that the start may take; 60,000 if not given. */
  startTimeout?: number;
}

/** Options of `useCluster`: those of a cluster, and of a lab if there is to be one. */
export interface FixtureOptions extends ClusterOptions {
  lab?: boolean | LabOptions;
}

/** How time passes: only when a call lets it, to the next deadline by itself, as in reality, or times a factor such as `60x`. */
export type LabClock = 'manual' | 'auto' | 'real' | `${number}x`;

/** Milliseconds, or a text: `1h30m`, `3d`. */
export type Duration = number | string;

export interface LabOptions extends ClusterOptions {
  /** `manual` if not given. */
  clock?: LabClock;
  /** Time at which the clock begins; now if not given. */
  start?: Date | string;
  /** Seed of all random values of the cluster's own components. */
  seed?: number;
  /** A snapshot file from which the cluster starts, such as that of a failed test. */
  image?: string;
  /** Real time for which calls wait for clients that are busy, unless they say it themselves: ten seconds if not given. Forks have it, too. */
  patience?: Duration;
  /** Folder for a snapshot file and the request log of each failed test of `inFork`; the variable KSTORE_KEEP names another one. */
  keep?: string;
  /** Memory of the request log, such as `64MiB`. */
  log?: string;
  /** Largest number of clusters. */
  clusters?: number;
}

export interface ForkOptions {
  name?: string;
  seed?: number;
  clock?: LabClock | { mode: string; factor?: number; upTo?: string };
  components?: readonly Component[];
  nodes?: number;
}

/** What happened while time passed. */
export interface Advanced {
  from: string;
  time: string;
  stops: number;
  barriers: number;
  ended: string;
  revision: number;
}

/** A state from which clusters start. */
export interface LabImage {
  readonly name: string;
  readonly revision: number;
  fork(options?: ForkOptions): Promise<Lab>;
  /** Writes it into a snapshot file, from which `Lab.start({ image })` starts; `keys` includes the cluster's private keys. */
  save(file: string, options?: { keys?: boolean }): Promise<void>;
  /** Forgets it; clusters from it live on. */
  delete(): Promise<void>;
}

/** A cluster whose clock the test moves. Calls that run out of their limit reject with LabBusy, which names what is busy. */
export class Lab {
  private constructor();

  /** Starts a server with a lab. */
  static start(options?: LabOptions): Promise<Lab>;
  /** Ends a fork, or the first cluster with its forks and the server. */
  stop(): Promise<void>;
  /** The cluster, for what any cluster has; its `wait` waits in real time. */
  readonly cluster: Cluster;
  /** Identifier in the lab. */
  readonly id: string;
  /** A call of the lab's API below `/kstore/lab/v1`: the decoded answer. */
  call(method: string, path: string, body?: unknown, options?: { signal?: AbortSignal }): Promise<any>;
  /** Mode, time and skew of the clock. */
  clock(): Promise<Record<string, any>>;
  /** The cluster's time. */
  now(): Promise<Date>;
  setClock(mode: 'manual' | 'auto' | 'scaled' | 'real', options?: { factor?: number; upTo?: Duration }): Promise<Record<string, any>>;
  /** Lets time pass, stop by stop: each timer of the cluster fires at its time, and clients react before time goes on. */
  advance(by?: Duration, options?: { to?: Date | string; next?: boolean; patience?: Duration; granule?: Duration }): Promise<Advanced>;
  /** One jump forward, as of a machine that was suspended. */
  leap(by: Duration): Promise<Advanced>;
  /** Resolves when this time of the cluster has passed, for which another call has to let it pass. */
  sleep(time: Duration): Promise<Record<string, any>>;
  /** Waits until controllers, scheduler and nodes have nothing to do and all clients are quiet; a manual clock passes meanwhile. */
  settled(options?: { limit?: Duration; patience?: Duration }): Promise<Record<string, any>>;
  /** Waits until all clients are quiet; no time passes. */
  quiet(options?: { patience?: Duration }): Promise<Record<string, any>>;
  /** Waits for an object, and lets a manual clock pass meanwhile, up to `limit` (30 minutes). `Cluster.wait` waits in real time. */
  wait(object: Reference, options: LabWaitOptions & { deleted: true }): Promise<undefined>;
  wait(object: Reference, options?: LabWaitOptions): Promise<KubernetesObject>;
  /** Switches a simulated node off. */
  stopNode(name: string): Promise<void>;
  /** Switches a simulated node on again. */
  startNode(name: string): Promise<void>;
  /** Gives a simulated node a fault, such as `crash` for a `duration`, beside those that it has. Resolves to all of the node. */
  nodeFault(name: string, fault: string, options?: NodeFaultOptions): Promise<NodeFault[]>;
  /** The faults of a simulated node. */
  nodeFaults(name: string): Promise<NodeFault[]>;
  /** Withdraws the faults of a simulated node, or those of one name. */
  healNode(name: string, fault?: string): Promise<void>;
  /**
   * Installs the fake timers of a runner (`vi`, `jest`, or `mock.timers` of node:test), which then follow the cluster's clock: the global
   * `setTimeout` and `setInterval` are waits at the server, at which the clock stops in order with the cluster's own timers, and `Date` is
   * the cluster's time as of the last stop. Time waits for this process. They end with the lab, or with `stop()`.
   */
  fakeTimers(timers: FakeTimers): Promise<LabTimers>;
  /** A branch: the same objects up to now, then a future and a clock of its own. */
  fork(options?: ForkOptions): Promise<Lab>;
  /** Several from one moment. */
  forks(count: number): Promise<Lab[]>;
  image(name: string, options?: { settled?: boolean }): Promise<LabImage>;
  /** An image from a snapshot file. */
  loadImage(name: string, file: string): Promise<LabImage>;
  /** Goes back to the image that this fork came from, or to another one, on the same port. */
  reset(to?: string): Promise<void>;
  /** Names a client by agent or user, and says of it what is given. */
  client(
    name: string,
    options?: { agent?: string; user?: string; process?: number; counted?: boolean; window?: Duration; busy?: boolean },
  ): Promise<Record<string, any>>;
  clients(): Promise<Record<string, any>[]>;
  /** What a client has been shown of each kind that it reads. */
  view(client: string): Promise<Record<string, any>>;
  /** The request log: by client, user, agent, verb, resource, namespace, name, code. */
  requests(filters?: Record<string, string | number>): Promise<Record<string, any>[]>;
  /** Who wrote what: by client, resource, namespace, name. */
  writes(filters?: Record<string, string | number>): Promise<Record<string, any>[]>;
  /**
   * Starts a program for which time waits, as a child of the server: a client of this name, known by its process, with KUBECONFIG of an
   * administrator or of the service account, which is made if it is not there. It ends, and its death is told, as that of
   * `Cluster.operator`; a plan may kill it and start it again.
   */
  program(
    command: readonly string[],
    options: { name: string; serviceAccount?: string; env?: Record<string, string>; cwd?: string },
  ): Promise<LabProgram>;
  /** Seeded faults of requests, in place of those before: `await lab.faults({ seed: 7 }).touch(0.3).lostAnswers(0.1).set()`. */
  faults(options?: { seed?: number }): Faults;
  /**
   * A watch cache that can stand still, as another kube-apiserver's may. The reads of `routes` are answered from it: programs, names of
   * clients, or routes as the lab's API has them. `window` is the number of changes before its revision that its watches still have.
   */
  cache(name: string, options?: { routes?: readonly (LabProgram | string | Record<string, any>)[]; window?: number }): LabCache;
  /** Runs actions in their order, each at its trigger: a request, an event or a write that is observed, never the real time. */
  plan(...actions: Action[]): Promise<Plan>;
  /** An action: SIGKILL to a program, and a new start: `now`, `never`, or `{ when: TRIGGER }`, then reading from a cache. */
  kill(program: LabProgram | string, options?: { start?: 'now' | 'never' | { when: object }; cache?: LabCache | string }): Action;
  /** An action: SIGTERM to a program, and a new start after its end. */
  term(program: LabProgram | string, options?: { start?: 'now' | 'never' | { when: object } }): Action;
  /** An action: a program stands still until a trigger. */
  pause(program: LabProgram | string, options: { until: object }): Action;
  /** An action by its name in the lab's API, such as `freeze`, `recreate`, `take-lease`, or a fault. */
  action(name: string, parameters?: Record<string, any>): Action;
  /** Who wrote to the object, and what followed, as `Cluster.explain` does. */
  explain(object: Reference, options?: { namespace?: string }): Promise<string>;
  /** For people: the clock, the clients for which time waits, the faults that hit, and the plans. */
  report(): Promise<string>;
  /**
   * Writes what shows a failure again: a snapshot file and the request log, called after `name`. Resolves to their paths; to none if neither
   * `folder` nor the option `keep` or the variable KSTORE_KEEP names a folder.
   */
  keep(name: string, folder?: string): Promise<string[]>;
}

/** A program that the lab's server runs. It has what `Operator` has; what it is now is as of the last look at it, which `report` renews. */
export interface LabProgram extends Operator {
  /** Name of the program and of its client in the lab. */
  readonly name: string;
  /** How often it was started again. */
  readonly incarnation: number;
  /** Asks the server what the program is now. */
  report(): Promise<Record<string, any>>;
}

/** Which requests a rule is for; without a client, those of all but the cluster's own components. Lists have globs. */
export interface FaultSelector {
  client?: LabProgram | string;
  agent?: string;
  user?: string;
  verbs?: readonly string[];
  /** As `plural.group`. */
  resources?: readonly string[];
  subresources?: readonly string[];
  namespaces?: readonly string[];
  names?: readonly string[];
  /** Name of the rule in counts. */
  name?: string;
  /** Only the first so many requests of a client with one verb and path. */
  first?: number;
  /** Most hits among these. */
  times?: number;
}

/** Seeded rules: each method adds one, with the probability of each request; `set` lets them begin. */
export interface Faults {
  /** Somebody changes the object before an update that carries a resourceVersion: a real conflict follows. */
  touch(probability: number, which?: FaultSelector): this;
  /** 429, with `Retry-After`; nothing is performed. */
  tooMany(probability: number, which?: FaultSelector & { seconds?: number }): this;
  /** 500 of an etcd that elects a leader; nothing is performed. */
  errors(probability: number, which?: FaultSelector & { how?: 'timed-out' | 'leader-changed' }): this;
  /** The connection is reset, or 503; nothing is performed. */
  unavailable(probability: number, which?: FaultSelector & { how?: 'reset' | '503' }): this;
  /** 504, after so much real time; nothing is performed. */
  timeouts(probability: number, which?: FaultSelector & { after?: Duration }): this;
  /** The request is performed, and its answer does not arrive. */
  lostAnswers(probability: number, which?: FaultSelector & { how?: 'reset' | '504' | 'silence' }): this;
  /** The request is performed late, in real time, by `by` and a random part of `upTo`. */
  slow(probability: number, which: FaultSelector & { by?: Duration; upTo?: Duration }): this;
  /** A watch ends after some events. */
  cut(probability: number, which?: FaultSelector & { how?: 'end' | 'reset' | 'frame'; after?: number }): this;
  /** A watch gets 410. */
  expire(probability: number, which?: FaultSelector): this;
  /** A list with `resourceVersion=0` shows a state of up to `by` revisions ago. */
  staleLists(probability: number, which: FaultSelector & { by: number }): this;
  /** 409 although nothing has changed. No real server does this: a program may break that is right. */
  conflicts(probability: number, which?: FaultSelector): this;
  /** A rule by the name of its fault in the lab's API. */
  rule(fault: string, probability: number, which?: FaultSelector & Record<string, any>): this;
  /** Sets the rules, in place of those before. */
  set(): Promise<void>;
  /** For each rule the numbers of hits and of draws that could not happen in a legal way. */
  counts(): Promise<{ name: string; fault: string; hits: number; skipped: number }[]>;
  /** Removes all rules. */
  clear(): Promise<void>;
}

/** A watch cache that stands still when it is told to. */
export interface LabCache {
  readonly name: string;
  /** Stands still for these kinds (`plural.group`; all if none), at the newest revision or an older one. */
  freeze(options?: { resources?: readonly string[]; at?: number }): Promise<LabCache>;
  /** Delivers what it has held back, in order; with `step` so many changes of each kind. */
  thaw(options?: { resources?: readonly string[]; step?: number }): Promise<LabCache>;
  report(): Promise<Record<string, any>>;
  /** Removes the cache: its clients see the newest state, never an older one. */
  delete(): Promise<void>;
}

/** Further members of a trigger; texts are globs, `where` is an expression of CEL. */
export interface TriggerOptions {
  client?: LabProgram | string;
  name?: string;
  namespace?: string;
  subresource?: string;
  where?: string;
  /** Which matching one; 1 if not given. */
  nth?: number;
}

/** An action of a plan, which happens once, at its trigger; without one at once. */
export interface Action {
  /** When such a request has been performed, before its client has the answer; of the action's program if no client is given. */
  after(verb: string, resource: string, which?: TriggerOptions): this;
  /** When such a request has arrived, before it is performed. */
  before(verb: string, resource: string, which?: TriggerOptions): this;
  /** When an event of a watch is due. */
  atEvent(resource: string, which?: TriggerOptions & { type?: string; phase?: 'due' | 'delivered' }): this;
  /** When an object changes. */
  atWrite(resource: string, which?: Omit<TriggerOptions, 'client' | 'subresource'> & { by?: LabProgram | string }): this;
  /** When a client, or all of them, have become quiet. */
  whenQuiet(client?: LabProgram | string, options?: { nth?: number }): this;
  /** When so much of the cluster's time has passed since the action before it. */
  atTime(after: Duration): this;
  /** At a trigger as the lab's API writes it. */
  when(trigger: object): this;
  /** The action waits for its trigger from when the one before it does, and not only after that has happened. */
  together(): this;
  /** A fault hits so many matching requests in a row. */
  times(count: number): this;
  /** As the lab's API has it. */
  readonly body: Record<string, any>;
}

/** A running plan. */
export interface Plan {
  readonly id: string;
  report(): Promise<Record<string, any>>;
  state(): Promise<'running' | 'done' | 'failed' | 'not-reached'>;
  /**
   * Waits, in real time, until the plan no longer runs, and resolves to its state. A killed program is started again by then: `settled` then
   * waits for it. Rejects with KstoreError after `timeout` milliseconds (30,000).
   */
  wait(options?: { timeout?: number }): Promise<'done' | 'failed' | 'not-reached'>;
  events(since?: number): Promise<Record<string, any>[]>;
  /** Lets held requests go on. */
  resume(): Promise<void>;
  /** Says that a step of the test begins, or ends, for triggers `{ step: { name } }`. */
  step(name: string, phase?: 'begin' | 'end'): Promise<void>;
  /** Ends the plan, and all that its actions began. */
  end(): Promise<void>;
}

/** `vi` of Vitest, `jest`, or `mock.timers` of node:test. */
export type FakeTimers =
  | { useFakeTimers(...given: any[]): any; useRealTimers(): any; advanceTimersByTimeAsync(by: number): Promise<any> }
  | { enable(...given: any[]): void; tick(by?: number): void; reset(): void };

/** Fake timers that follow a cluster's clock. */
export interface LabTimers {
  /** Moves the fake time to that of the cluster, as each call does that lets time pass. */
  sync(): Promise<void>;
  /** Removes the fake timers; the real ones are back. */
  stop(): void;
}

/** A fault of a simulated node, for `Lab.nodeFault`. */
export interface NodeFaultOptions {
  /** The value of a fault that has one, such as `3` of `slow`. */
  value?: string;
  /** From now until it begins. */
  after?: Duration;
  /** How long it holds; without it, until `Lab.healNode`. */
  duration?: Duration;
  /** From one beginning to the next. */
  every?: Duration;
}

/** A fault that a simulated node has. */
export interface NodeFault {
  fault: string;
  /** With its value and times, as the annotation of the Node has it. */
  item: string;
  /** `annotation`, `nodefault/NAME` or `stop`. */
  by: string;
  state: 'waiting' | 'active' | 'over';
  since: string;
  next?: string;
}

/** What `Lab.wait` waits for; one of the first three. With none of them the object must exist. */
export interface LabWaitOptions {
  condition?: string;
  matches?: object;
  deleted?: boolean;
  /** Time of the cluster. */
  limit?: Duration;
  patience?: Duration;
  namespace?: string;
}

/** What to wait for; one of the first four. With none of them the object must exist. */
export interface WaitOptions {
  /** The type of a condition that is True, or `Type=Status`. */
  condition?: string;
  /** A part of the object: objects match those that have at least their fields. */
  matches?: object;
  /** Whether the object is as it should be. */
  until?: (object: KubernetesObject) => unknown;
  /** The object is gone. */
  deleted?: boolean;
  namespace?: string;
  /** Milliseconds; 30,000 if not given. */
  timeout?: number;
}

export interface ListOptions {
  /** A selector as kubectl takes it (`app=web,tier!=cache`), or labels. */
  labels?: string | Record<string, string>;
  /** A selector of fields. */
  fields?: string;
  namespace?: string;
  allNamespaces?: boolean;
}

/** A running cluster. Any number may run at once: each has a port and a folder of its own. */
export class Cluster {
  private constructor();

  /** Starts a cluster. Resolves when the API serves and the manifests are applied; rejects with StartError or ApiError. */
  static start(options?: ClusterOptions): Promise<Cluster>;

  /**
   * Ends the operators and the server; when it resolves the processes and their files are gone. On a view it ends the view's operators. Rejects
   * with OperatorDied at the end if an operator had ended by itself and nothing has told so.
   */
  stop(): Promise<void>;

  /** The path of the administrator's kubeconfig; the file goes with the cluster. */
  readonly kubeconfig: string;
  /** Where objects without a namespace belong. */
  readonly namespace: string;
  /** The environment of this process with KUBECONFIG, for programs that a test starts. */
  readonly env: Record<string, string | undefined>;
  /** The API's URL: `https://127.0.0.1:PORT`. */
  readonly url: string;
  /** The certificate of the authority that signed the API's certificate, as PEM. */
  readonly ca: string;
  /** The server's process id. */
  readonly pid: number;

  /** The same cluster with another default namespace, which is made if it is not there, and a kubeconfig that names it. */
  inNamespace(name: string): Promise<Cluster>;

  /**
   * A bearer token of a service account (`kstore` if not given), which is made if it is not there. `clusterRole` is bound to it in all
   * namespaces: `cluster-admin` if not given, none if null.
   */
  token(options?: { serviceAccount?: string; namespace?: string; clusterRole?: string | null }): Promise<string>;

  /**
   * The path of a kubeconfig with a token of a service account, which is made if it is not there; it goes with the cluster. For operators that
   * are to have the rights of their own manifests and no more; `clusterRole` is bound to it as by `token`, none if not given.
   */
  kubeconfigOf(serviceAccount: string, options?: { namespace?: string; clusterRole?: string | null }): Promise<string>;

  /**
   * A certificate of the cluster's authority for a server of the test, such as a webhook; for this machine if no names are given. The API
   * server calls a webhook by `url` under the URL's host name, and by `service` under NAME.NAMESPACE.svc. The component controllers must run:
   * it signs.
   */
  servingCertificate(names?: readonly string[]): Promise<ServingCertificate>;

  /**
   * What the installed kubectl prints with these arguments, in this namespace; for what has no method here, such as `exec`. Rejects with
   * KstoreError, with what it says on standard error, if it fails or takes longer than `timeout` milliseconds (60,000 if not given).
   */
  kubectl(args: readonly string[], options?: { input?: string; timeout?: number }): Promise<string>;

  /**
   * Starts a program that acts on the cluster; it ends with this cluster, or at the end of the test if it is a test's. When it ends by itself,
   * waits of this cluster and its namespaces reject with OperatorDied at once, with its last lines; other failures of a test have these, too.
   * KUBECONFIG is the cluster's, with `serviceAccount` that of `kubeconfigOf`; `env` has further variables.
   */
  operator(
    command: readonly string[],
    options?: { env?: Record<string, string>; cwd?: string; serviceAccount?: string },
  ): Promise<Operator>;

  /** Those that act here: its own, and those of the cluster that it is a namespace of. */
  readonly operators: readonly Operator[];

  /**
   * Applies manifests by server-side apply, in their order; resolves to the objects as they are stored. After a CustomResourceDefinition
   * its kind is served. Fields that another manager owns are taken over. Rejects with ApiError at the first refusal; what came before it
   * stays.
   */
  apply(manifest: Manifest, options?: { namespace?: string }): Promise<KubernetesObject[]>;

  /** The object; undefined if it does not exist. */
  get(object: Reference, options?: { namespace?: string }): Promise<KubernetesObject | undefined>;

  /** The objects of a kind, in order of name: those of one namespace unless `allNamespaces`. */
  list(kind: string, options?: ListOptions): Promise<KubernetesObject[]>;

  /**
   * Changes an object and resolves to it as it is stored: an object is a merge patch, an array a JSON patch. The type `strategic` is kubectl's
   * patch of built-in kinds, which merges lists; `subresource` is `status`, for example.
   */
  patch(
    object: Reference,
    patch: object | readonly object[],
    options?: { type?: 'merge' | 'json' | 'strategic'; subresource?: string; namespace?: string },
  ): Promise<KubernetesObject>;

  /** Sets the replicas of anything that has a scale, of custom kinds too. */
  scale(object: Reference, replicas: number, options?: { namespace?: string }): Promise<void>;

  /** What a container of a pod has written; a pod is given by its name alone, too. `tail` is the number of last lines. */
  logs(pod: Reference, options?: { container?: string; previous?: boolean; tail?: number; namespace?: string }): Promise<string>;

  /** The events about an object, in the order in which they were last written; also about former objects of its name. */
  events(object: Reference, options?: { namespace?: string }): Promise<KubernetesObject[]>;

  /** Asks for the object's deletion; `wait(object, { deleted: true })` waits for it. Rejects with ApiError if it does not exist. */
  delete(object: Reference, options?: { namespace?: string }): Promise<void>;

  /**
   * Waits, by a watch, until an object is as it should be, and resolves to it; to undefined for a deletion. The object need not exist yet.
   * Rejects with WaitTimeout, which has the last state and what led there.
   */
  wait(object: Reference, options: WaitOptions & { deleted: true }): Promise<undefined>;
  wait(object: Reference, options?: WaitOptions): Promise<KubernetesObject>;

  /**
   * Waits as `wait` does until each of the objects has been as it should be, all within `timeout`, and resolves to them in order. For objects
   * by label: `waitAll(await cluster.list('pods', { labels: 'app=web' }), { condition: 'Ready' })`.
   */
  waitAll(objects: Iterable<Reference>, options: WaitOptions & { deleted: true }): Promise<undefined[]>;
  waitAll(objects: Iterable<Reference>, options?: WaitOptions): Promise<KubernetesObject[]>;

  /** Who wrote to the object, and what followed, as a tree of lines. */
  explain(object: Reference, options?: { namespace?: string }): Promise<string>;

  /** The revision of the newest write. */
  revision(): Promise<number>;

  /** What led to the objects that changed last, after a revision, as lines for people. Objects that are gone are shown only below others. */
  lastWrites(since?: number): Promise<string>;

  /**
   * Saves the history of this cluster, or of this namespace, as one HTML file, which a browser opens without the cluster: each write with its
   * author and its cause, and the objects at each revision, from the revision `since` on, and what the scheduler said about pods. `title` says
   * what it is about, `failure` what failed. Values of Secrets are hidden. Resolves to the path.
   */
  report(file: string, options?: { since?: number; title?: string; failure?: string }): Promise<string>;

  /** One request to the API: the decoded answer. Rejects with ApiError for a refusal. */
  request(method: string, path: string, body?: unknown, contentType?: string): Promise<any>;

  /** What the server has logged; only warnings, unless RUST_LOG asks for more. */
  log(): string;
}

/** The files of a serving certificate (PEM); they go with the cluster. */
export interface ServingCertificate {
  readonly certificate: string;
  readonly key: string;
  readonly authority: string;
  /** The authority as `caBundle` of a webhook's `clientConfig` has it: PEM in base64. */
  readonly caBundle: string;
}

/** A program that `Cluster.operator` started. */
export interface Operator {
  readonly command: readonly string[];
  /** The program's process id. */
  readonly pid: number;
  /** Undefined while it runs, or if a signal ended it. */
  readonly exitCode?: number;
  /** The name of the signal that ended it. */
  readonly signal?: string;
  /** What it has written to standard output and error so far. */
  log(): string;
  /** Waits until a program that is to end by itself has ended, and resolves to its exit code. Rejects with KstoreError after `timeout` (30,000 ms). */
  wait(options?: { timeout?: number }): Promise<number | undefined>;
  /** Ends it by SIGTERM, after 10 s by SIGKILL, and what it has started. Rejects with OperatorDied if it had died and no error told so. */
  stop(): Promise<void>;
}

/** The path of kstore-server: KSTORE_SERVER, else that of the platform's package, else the first on PATH. Throws StartError. */
export function findServer(): string;

/** The base of all errors of this package. */
export class KstoreError extends Error {}
/** A call that cannot mean anything: a manifest without a kind, a kind that the cluster does not have. */
export class UsageError extends KstoreError {}
/** The server is missing or did not become ready; the message has the end of its log. */
export class StartError extends KstoreError {}
/** An object did not become what was waited for. */
export class WaitTimeout extends KstoreError {
  /** The object as it was last seen; undefined if it did not exist. */
  readonly last?: KubernetesObject;
}
/** A program that `Cluster.operator` started ended by itself; the message has its last lines. */
export class OperatorDied extends KstoreError {
  readonly exitCode?: number;
  readonly signal?: string;
}
/** A call of the lab ran out of its limit. */
export class LabBusy extends KstoreError {
  /** A line for each thing that is busy. */
  readonly busy: readonly string[];
}
/** The API refused a request. */
export class ApiError extends KstoreError {
  /** The HTTP status. */
  readonly code: number;
  /** The reason of the Kubernetes Status. */
  readonly reason: string;
  readonly status: Record<string, any>;
}
