// The cluster over a window of revisions: the rows of all objects at one revision, which moves, and the writes of the window. Pure.

/** How an object is: the words of the server's rows. */
export type State = '' | 'ready' | 'progress' | 'unready' | 'pending' | 'done' | 'failed' | 'idle' | 'ending' | 'warning';

/** Summary of one object, as the server sends it: docs/page.md lists the members. */
export interface Row {
  k: string;
  n?: string;
  m: string;
  u?: string;
  o?: string;
  c?: string;
  s?: State;
  r?: string;
  d?: string;
  q?: [number, number];
  x?: number;
  t?: string;
  i?: string[];
  l?: Record<string, string>;
}

export type Effect = 'created' | 'updated' | 'deleted';

/** One object of a write. */
export interface Touch {
  key: string;
  effect: Effect;
  before: Row | null;
  after: Row | null;
}

/** One revision. */
export interface Write {
  r: number;
  /** Milliseconds since 1970. */
  t: number;
  user: string;
  agent: string;
  verb: string;
  causes: number[];
  touches: Touch[];
  /** Whether it is by a person or a program that is no part of the control plane, and names no cause. */
  outside: boolean;
  /** Seconds before it whose changes a recording does not have; 0: none. */
  gap: number;
}

/** A line of `/kstore/v1/changes`. */
export interface ChangeLine {
  r: number;
  t?: number;
  w?: [string, string, string];
  c?: number[];
  o: [string, string, string, Effect, Row | null][];
}

export const keyOf = (kind: string, namespace: string, name: string): string => `${kind}/${namespace}/${name}`;
export const rowKey = (row: Row): string => keyOf(row.k, row.n ?? '', row.m);

/** Resource, namespace and name of a key. */
export function partsOf(key: string): { kind: string; namespace: string; name: string } {
  const first = key.indexOf('/');
  const second = key.indexOf('/', first + 1);
  return { kind: key.slice(0, first), namespace: key.slice(first + 1, second), name: key.slice(second + 1) };
}

const COMPONENTS = ['system:kube-', 'system:node:', 'system:serviceaccount:kube-system:', 'system:kstore', 'system:apiserver', 'system:controllers', 'system:scheduler'];

/** Whether a user is a component of the control plane. */
export const isComponent = (user: string): boolean => COMPONENTS.some((prefix) => user.startsWith(prefix));

/** The program of a write, without its version. */
export const programOf = (agent: string): string => agent.split('/')[0] || 'unknown';

/** What a recording says of a write that is the difference after a gap: its length in seconds. */
const GAP = /^kstore-record \(gap (\d+) s\)/;

/** A stretch whose changes a recording does not have: it is after a number of writes, and ends with the write that is the difference. */
export interface Gap {
  from: number;
  to: number;
  seconds: number;
}

/** Who wrote, in a few words. */
export function writerOf(write: Write): string {
  const program = programOf(write.agent);
  if (write.gap) return `the recorder, after ${write.gap} s that it missed`;
  if (!write.user) return 'unknown';
  return isComponent(write.user) ? program : `${write.user} (${program})`;
}

export class Model {
  /** Revision of the window's first state. */
  base: number;
  /** Rows at the cursor. */
  readonly rows = new Map<string, Row>();
  readonly writes: Write[] = [];
  /** Number of writes that the rows contain. */
  at = 0;
  /** Indexes of the writes to each object. */
  readonly byKey = new Map<string, number[]>();
  /** Indexes of the writes that name a revision as cause. */
  readonly effects = new Map<number, number[]>();
  /** Stretches whose changes a recording does not have, by their ends. */
  readonly gaps: Gap[] = [];
  /** Rows of the window's first state. */
  readonly first = new Map<string, Row>();
  private readonly head = new Map<string, Row>();

  constructor(base: number) {
    this.base = base;
  }

  /** Adds a row of the first state. */
  addRow(row: Row): void {
    const key = rowKey(row);
    this.first.set(key, row);
    this.rows.set(key, row);
    this.head.set(key, row);
  }

  /** Adds the next revision. The cursor follows if it was at the newest one and `follow` says so. */
  add(line: ChangeLine, follow: boolean): void {
    if (line.r <= this.newest()) return;
    const [user, agent, verb] = line.w ?? ['', '', ''];
    const causes = line.c ?? [];
    const touches = line.o.map(([kind, namespace, name, effect, row]) => {
      const key = keyOf(kind, namespace, name);
      const before = this.head.get(key) ?? null;
      if (row) this.head.set(key, row);
      else this.head.delete(key);
      return { key, effect, before, after: row };
    });
    const last = this.writes.length ? this.writes[this.writes.length - 1].t : 0;
    const t = line.t ? Math.max(line.t / 1000, last) : last;
    const index = this.writes.length;
    const outside = causes.length === 0 && user !== '' && !isComponent(user);
    const gap = Number(GAP.exec(agent)?.[1] ?? 0);
    if (gap) this.gaps.push({ from: Math.min(index, this.countUpToTime(t - gap * 1000)), to: index + 1, seconds: gap });
    this.writes.push({ r: line.r, t, user, agent, verb, causes, touches, outside, gap });
    for (const touch of touches) push(this.byKey, touch.key, index);
    for (const cause of causes) push(this.effects, cause, index);
    if (follow && this.at === index) this.seek(index + 1);
  }

  /** The newest revision. */
  newest(): number {
    return this.writes.length ? this.writes[this.writes.length - 1].r : this.base;
  }

  /** The revision of the cursor. */
  revision(): number {
    return this.at ? this.writes[this.at - 1].r : this.base;
  }

  /** The write that made the state at the cursor. */
  current(): Write | null {
    return this.at ? this.writes[this.at - 1] : null;
  }

  /** The number of writes up to a revision. */
  countUpTo(revision: number): number {
    return this.countWhile((write) => write.r <= revision);
  }

  /** The number of writes up to a time. */
  countUpToTime(time: number): number {
    return this.countWhile((write) => write.t <= time);
  }

  /** The number of first writes that are so; after one that is not so, none is. */
  private countWhile(isBefore: (write: Write) => boolean): number {
    let low = 0;
    let high = this.writes.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(this.writes[middle])) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The write with a revision. */
  find(revision: number): Write | null {
    const write = this.writes[this.countUpTo(revision) - 1];
    return write && write.r === revision ? write : null;
  }

  /** Moves the rows to the state after a number of writes. */
  seek(count: number): void {
    const wanted = Math.max(0, Math.min(count, this.writes.length));
    for (; this.at < wanted; this.at++) {
      for (const touch of this.writes[this.at].touches) set(this.rows, touch.key, touch.after);
    }
    for (; this.at > wanted; this.at--) {
      const touches = this.writes[this.at - 1].touches;
      for (let i = touches.length - 1; i >= 0; i--) set(this.rows, touches[i].key, touches[i].before);
    }
  }

  /** Index of the outside write next to the cursor, in a direction; the end of the window if there is none. */
  nextOutside(step: 1 | -1): number {
    for (let count = this.at + step; count > 0 && count <= this.writes.length; count += step) {
      if (this.writes[count - 1].outside) return count;
    }
    return step > 0 ? this.writes.length : 0;
  }

  /** The newest write to an object up to the cursor. */
  lastWrite(key: string, only: (write: Write) => boolean = () => true): Write | null {
    const indexes = this.byKey.get(key) ?? [];
    for (let i = indexes.length - 1; i >= 0; i--) {
      if (indexes[i] < this.at && only(this.writes[indexes[i]])) return this.writes[indexes[i]];
    }
    return null;
  }

  /** Number of writes that follow from one, with theirs. */
  consequences(revision: number, most = 10_000): number {
    const seen = new Set<number>();
    const open = [revision];
    while (open.length && seen.size < most) {
      for (const index of this.effects.get(open.pop()!) ?? []) {
        if (!seen.has(index)) {
          seen.add(index);
          open.push(this.writes[index].r);
        }
      }
    }
    return seen.size;
  }
}

function push<K>(map: Map<K, number[]>, key: K, value: number): void {
  const list = map.get(key);
  if (!list) map.set(key, [value]);
  else if (list[list.length - 1] !== value) list.push(value);
}

function set(rows: Map<string, Row>, key: string, row: Row | null): void {
  if (row) rows.set(key, row);
  else rows.delete(key);
}
