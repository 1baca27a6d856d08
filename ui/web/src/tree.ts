// Owners and what they own at the cursor; workloads, and pods by node. Pure.

import { rowKey, type Row } from './model.ts';

/** Kinds that are workloads even without pods. */
const WORKLOADS = ['deployments.apps', 'statefulsets.apps', 'daemonsets.apps', 'jobs.batch', 'cronjobs.batch', 'replicasets.apps', 'replicationcontrollers'];
/** Kinds whose rows are no part of trees. */
const NO_PART = ['events'];

export interface Workload {
  row: Row;
  pods: Row[];
}

export class Tree {
  private readonly byUid = new Map<string, Row>();
  private readonly owned = new Map<string, Row[]>();

  constructor(readonly rows: ReadonlyMap<string, Row>) {
    for (const row of rows.values()) {
      if (NO_PART.includes(row.k)) continue;
      if (row.u) this.byUid.set(row.u, row);
      if (row.o) {
        const list = this.owned.get(row.o);
        if (list) list.push(row);
        else this.owned.set(row.o, [row]);
      }
    }
  }

  get(uid: string | undefined): Row | null {
    return (uid && this.byUid.get(uid)) || null;
  }

  /** The owners of a row, the nearest first. */
  owners(row: Row): Row[] {
    const found: Row[] = [];
    for (let owner = this.get(row.o); owner && found.length < 10; owner = this.get(owner.o)) found.push(owner);
    return found;
  }

  /** What a row owns itself, sorted. */
  children(row: Row): Row[] {
    return [...((row.u && this.owned.get(row.u)) || [])].sort(byName);
  }

  /** The topmost owner of a row, or the row. */
  root(row: Row): Row {
    const owners = this.owners(row);
    return owners.length ? owners[owners.length - 1] : row;
  }

  /** What runs pods, with its pods, those in need first. */
  workloads(namespace: string): Workload[] {
    const found = new Map<string, Workload>();
    for (const row of this.rows.values()) {
      if (namespace && row.n !== namespace) continue;
      const isPod = row.k === 'pods';
      if (!isPod && !(WORKLOADS.includes(row.k) && !this.get(row.o))) continue;
      const root = isPod ? this.root(row) : row;
      // A static pod is owned by its node: the node is no workload.
      const top = root.k === 'nodes' ? row : root;
      const key = rowKey(top);
      const workload = found.get(key) ?? { row: top, pods: [] };
      if (isPod) workload.pods.push(row);
      found.set(key, workload);
    }
    const ranked = [...found.values()].map((workload) => ({ workload, rank: urgency(workload) }));
    return ranked.sort((a, b) => a.rank - b.rank || byName(a.workload.row, b.workload.row)).map(({ workload }) => workload);
  }

  /** Pods of each node, and those without a node under the empty name. */
  podsByNode(namespace: string): Map<string, Row[]> {
    const found = new Map<string, Row[]>();
    for (const row of this.rows.values()) {
      if (row.k === 'nodes') found.set(row.m, found.get(row.m) ?? []);
      if (row.k !== 'pods' || (namespace && row.n !== namespace) || row.s === 'done') continue;
      const node = row.d ?? '';
      const list = found.get(node);
      if (list) list.push(row);
      else found.set(node, [row]);
    }
    for (const pods of found.values()) pods.sort(plainly);
    return new Map([...found.entries()].sort(([a], [b]) => (a === '' ? 1 : b === '' ? -1 : natural(a, b))));
  }
}

const BAD = ['failed', 'unready', 'pending', 'progress', 'ending'];

/** The rank of a workload in lists: those in need are first. */
function urgency({ row, pods }: Workload): number {
  let worst = BAD.length;
  for (const { s } of [row, ...pods]) {
    const at = BAD.indexOf(s ?? '');
    if (at >= 0 && at < worst) worst = at;
  }
  return worst < 3 ? worst : BAD.length;
}

const collator = new Intl.Collator('en', { numeric: true });
export const natural = (a: string, b: string): number => (a === b ? 0 : collator.compare(a, b));
export const byName = (a: Row, b: Row): number => natural(a.n ?? '', b.n ?? '') || natural(a.k, b.k) || natural(a.m, b.m);
/** An order that costs little, where only its constancy counts. */
const plainly = (a: Row, b: Row): number => (a.m < b.m ? -1 : a.m > b.m ? 1 : 0);
