// The timeline: lanes of objects with their lives and writes. Pure: the canvas and the table show what this computes.

import { partsOf, type Model, type Row, type State } from './model.ts';
import { natural } from './tree.ts';

/** A stretch of a life in one state, between two numbers of writes. */
export interface Life {
  from: number;
  to: number;
  state: State;
}

export interface Lane {
  key: string;
  /** The newest row of the window. */
  row: Row;
  depth: number;
  lives: Life[];
  /** Indexes of the writes to the object. */
  marks: number[];
}

export type Grouping = 'owner' | 'kind' | 'node';

/** Kinds without a lane unless a search names them: they repeat what other lanes show. */
const QUIET = new Set(['events', 'endpoints', 'endpointslices.discovery.k8s.io', 'controllerrevisions.apps', 'serviceaccounts', 'namespaces', 'clusterroles.rbac.authorization.k8s.io',
  'clusterrolebindings.rbac.authorization.k8s.io', 'roles.rbac.authorization.k8s.io', 'rolebindings.rbac.authorization.k8s.io', 'flowschemas.flowcontrol.apiserver.k8s.io',
  'prioritylevelconfigurations.flowcontrol.apiserver.k8s.io', 'priorityclasses.scheduling.k8s.io', 'apiservices.apiregistration.k8s.io', 'csinodes.storage.k8s.io']);

/** Most lanes. */
const MOST = 5_000;

export const isQuiet = (kind: string): boolean => QUIET.has(kind);

/** The lanes of all objects of the window that `wanted` chooses. */
export function lanes(model: Model, grouping: Grouping, wanted: (row: Row) => boolean): Lane[] {
  const all = new Map<string, Lane>();
  const uids = new Map<string, Lane>();
  const keys = new Set([...model.first.keys(), ...model.byKey.keys()]);
  for (const key of keys) {
    const lane = laneOf(model, key);
    if (!lane || !wanted(lane.row)) continue;
    all.set(key, lane);
    if (lane.row.u) uids.set(lane.row.u, lane);
    if (all.size >= MOST) break;
  }
  if (grouping === 'owner') return byOwner([...all.values()], uids);
  const group = (lane: Lane) => (grouping === 'kind' ? lane.row.k : lane.row.k === 'nodes' ? lane.row.m : lane.row.d ?? '\uffff');
  return [...all.values()].sort((a, b) => natural(group(a), group(b)) || Number(b.row.k === 'nodes') - Number(a.row.k === 'nodes') || byBirth(a, b));
}

/** The lane of one object; null if it has no row in the window. */
export function laneOf(model: Model, key: string): Lane | null {
  const marks = model.byKey.get(key) ?? [];
  const first = model.first.get(key) ?? null;
  const lives: Life[] = [];
  let row = first;
  let open: Life | null = first ? { from: 0, to: 0, state: first.s ?? '' } : null;
  for (const index of marks) {
    const touch = model.writes[index].touches.find((own) => own.key === key);
    if (!touch) continue;
    const state = touch.after?.s ?? '';
    const isSame = open && touch.after && open.state === state && touch.before?.u === touch.after.u;
    if (!isSame) {
      if (open) lives.push({ ...open, to: index + 1 });
      open = touch.after ? { from: index + 1, to: 0, state } : null;
    }
    row = touch.after ?? row ?? touch.before;
  }
  if (open) lives.push({ ...open, to: Number.POSITIVE_INFINITY });
  return row ? { key, row, depth: 0, lives, marks } : null;
}

const RANK = ['nodes', 'deployments.apps', 'statefulsets.apps', 'daemonsets.apps', 'cronjobs.batch', 'jobs.batch', 'replicasets.apps', 'pods'];
const rank = (lane: Lane): number => {
  const at = RANK.indexOf(lane.row.k);
  return at < 0 ? RANK.length : at;
};
const birth = (lane: Lane): number => lane.lives[0]?.from ?? 0;
const byBirth = (a: Lane, b: Lane): number => rank(a) - rank(b) || birth(a) - birth(b) || natural(a.row.m, b.row.m);

function byOwner(all: Lane[], uids: Map<string, Lane>): Lane[] {
  const below = new Map<Lane, Lane[]>();
  const roots: Lane[] = [];
  for (const lane of all) {
    const owner = lane.row.o ? uids.get(lane.row.o) : undefined;
    if (!owner || owner === lane) roots.push(lane);
    else below.set(owner, [...(below.get(owner) ?? []), lane]);
  }
  const found: Lane[] = [];
  const seen = new Set<Lane>();
  const add = (lane: Lane, depth: number) => {
    if (seen.has(lane) || depth > 20) return;
    seen.add(lane);
    found.push({ ...lane, depth });
    for (const child of (below.get(lane) ?? []).sort(byBirth)) add(child, depth + 1);
  };
  // Trees first, then what stands alone, nodes last.
  const place = (lane: Lane) => (lane.row.k === 'nodes' ? 2 : below.has(lane) ? 0 : rank(lane) < RANK.length ? 1 : 3);
  roots.sort((a, b) => place(a) - place(b) || byBirth(a, b)).forEach((root) => add(root, 0));
  return found;
}

/** The lanes that a write and its causes and effects concern, by key. */
export function arrows(model: Model, revision: number): { from: string; fromRevision: number; to: string; toRevision: number }[] {
  const write = model.find(revision);
  if (!write) return [];
  const found: { from: string; fromRevision: number; to: string; toRevision: number }[] = [];
  const own = write.touches[0]?.key;
  if (!own) return [];
  for (const cause of write.causes) {
    const before = model.find(cause);
    if (before?.touches[0]) found.push({ from: before.touches[0].key, fromRevision: cause, to: own, toRevision: revision });
  }
  for (const index of (model.effects.get(revision) ?? []).slice(0, 200)) {
    const after = model.writes[index];
    if (after.touches[0]) found.push({ from: own, fromRevision: revision, to: after.touches[0].key, toRevision: after.r });
  }
  return found;
}

/** Kinds by resource, as the server names them. */
export const kindNames = new Map<string, string>();

/** The kind of a resource: `Deployment` of `deployments.apps`. */
export const kindName = (resource: string): string => kindNames.get(resource) ?? resource;

/** An object in a few words: `Deployment web`. */
export const shortName = (key: string): string => {
  const { kind, name } = partsOf(key);
  return `${kindName(kind)} ${name}`;
};
