// Why pods are on their nodes, or on none: the pods to ask about, and the texts of an answer. Pure.

import { rowKey, writerOf, type Model, type Row } from './model.ts';

/** A record of the scheduler: consecutive attempts to place a pod, with equal results. */
export interface Attempt {
  /** Number of the first of these attempts. */
  attempt: number;
  /** Number of further attempts with this result. */
  repeats: number;
  time: string;
  lastTime?: string;
  /** The newest revision that the scheduler had read. */
  seen: number;
  result: 'placed' | 'refused' | 'failed';
  placed?: { node: string; evaluated: number; feasible: number; best: number; total: number; scores?: Record<string, number> };
  refused?: { message: string; nodes: number; evictions?: { count: number; node?: string; pods?: string[] } };
  failed?: { message: string };
}

/** What a node lacks: an amount of a resource, or a toleration of the pod. */
export type Lack =
  | { resource: string; requested: number; free: number }
  | { taint: { key: string; value: string; effect: string } };

/** The refusal of a node by a filter. */
export interface NodeRefusal {
  plugin: string;
  reasons: string[];
  lacks: Lack[];
}

/** What filters and scores say of a node. */
export interface NodeVerdict {
  node: string;
  fits: boolean;
  total: number | null;
  scores: Record<string, number>;
  refusals: NodeRefusal[];
}

/** The verdicts on all nodes, computed from the state at a revision. */
export interface Verdicts {
  revision: number;
  isPresent: boolean;
  unread: string[];
  message: string | null;
  contradiction: string | null;
  equalsRecord: boolean | null;
  evictions: { node: string; pods: string[] } | null;
  filters: string[];
  scores: { plugin: string; weight: number }[];
  /** The nodes that fit, the best first, and then the others, the nearest first. */
  nodes: NodeVerdict[];
  /** Number of nodes that the answer leaves out. */
  moreNodes: number;
  suggestions: { part: 'pod' | 'node' | 'otherPods'; change: string; node: string }[];
}

/** Why a pod is where it is: the answer of `kstore-server explain pod/NAME -o json`. */
export interface Placement {
  pod: string;
  uid?: string;
  scheduler: string;
  state: 'pending' | 'gated' | 'placed' | 'ended';
  node: string | null;
  records: Attempt[];
  notes: string[];
  schedulingGates?: string[];
  bound?: { revision: number; by: string };
  computed?: Verdicts;
}

/** Pods without a node that have not ended, the oldest first. */
export function waitingPods(rows: Iterable<Row>, namespace: string): Row[] {
  const found: Row[] = [];
  for (const row of rows) {
    if (row.k === 'pods' && !row.d && row.s !== 'done' && row.s !== 'failed' && (!namespace || row.n === namespace)) found.push(row);
  }
  return found.sort((a, b) => (a.c ?? '').localeCompare(b.c ?? '') || (rowKey(a) < rowKey(b) ? -1 : 1));
}

/** A pod and the write that gave it a node. */
export interface PlacedPod {
  row: Row;
  revision: number;
}

/** The pods at the cursor that got their node in the window, the last one first; at most a number of them. */
export function placedPods(model: Model, namespace: string, most: number): PlacedPod[] {
  const found = new Map<string, PlacedPod>();
  for (let index = model.at - 1; index >= 0 && found.size < most; index--) {
    for (const { key, before, after } of model.writes[index].touches) {
      const row = model.rows.get(key);
      const isBind = after?.k === 'pods' && after.d && !before?.d;
      if (isBind && row && row.u === after.u && row.d && (!namespace || row.n === namespace) && !found.has(key) && found.size < most) {
        found.set(key, { row, revision: model.writes[index].r });
      }
    }
  }
  return [...found.values()];
}

/**
 * What a report has about a pod as an answer at the slider. How far the pod is comes from its row there; the records are those of the
 * pod's whole life, and the verdicts are of the report's end.
 */
export function placementInReport(row: Row, model: Model, known: Placement[]): Placement {
  const own = known.find(({ uid }) => uid === row.u);
  const isEnded = row.s === 'done' || row.s === 'failed';
  const state = isEnded ? 'ended' : row.d ? 'placed' : own?.state === 'gated' ? 'gated' : 'pending';
  const bind = model.lastWrite(rowKey(row), (write) => write.touches.some(({ key, before, after }) => key === rowKey(row) && after?.u === row.u && after?.d && !before?.d));
  return {
    pod: `${row.n}/${row.m}`,
    uid: row.u,
    scheduler: own?.scheduler ?? '',
    state,
    node: row.d ?? null,
    records: own?.records ?? [],
    notes: state === 'pending' && own && !own.computed ? ['The report has the verdicts on nodes only for some of the pods that waited at its end.'] : own?.notes ?? [],
    schedulingGates: own?.schedulingGates,
    bound: bind ? { revision: bind.r, by: writerOf(bind) } : undefined,
    computed: state === 'pending' ? own?.computed : undefined,
  };
}

/** Names of plugins as heads of columns; others are short. */
const SHORT: Record<string, string> = {
  TaintToleration: 'Taints',
  NodeAffinity: 'Affinity',
  PodTopologySpread: 'Spread',
  InterPodAffinity: 'Pods',
  NodeResourcesFit: 'Fit',
  NodeResourcesBalancedAllocation: 'Balance',
  ImageLocality: 'Image',
  NodeUnschedulable: 'Cordon',
  NodePorts: 'Ports',
  NodeName: 'Name',
  NodeVolumeLimits: 'Limits',
  VolumeRestrictions: 'Volumes',
  VolumeBinding: 'Binding',
  VolumeZone: 'Zone',
  DynamicResources: 'Devices',
};

/** A plugin's name as the head of a column. */
export const shortPlugin = (plugin: string): string => SHORT[plugin] ?? plugin;

const UNITS: [string, number][] = [['Gi', 2 ** 30], ['Mi', 2 ** 20], ['Ki', 2 ** 10]];
const decimal = (value: number, digits: number): string => String(Number(value.toFixed(digits)));

/** An amount of a resource as people write it: CPU in cores, memory in its largest binary unit. CPU comes in thousandths. */
export function amount(resource: string, value: number): string {
  if (resource === 'cpu') return decimal(value / 1000, 3);
  if (resource !== 'memory' && resource !== 'ephemeral-storage') return String(value);
  const unit = UNITS.find(([, size]) => value >= size);
  return unit ? `${decimal(value / unit[1], 2)}${unit[0]}` : String(value);
}

function lackText(lack: Lack): string {
  if ('taint' in lack) {
    const { key, value, effect } = lack.taint;
    return `toleration of ${key}${value ? `=${value}` : ''}:${effect}`;
  }
  return `${lack.resource} ${amount(lack.resource, lack.requested - lack.free)} of ${amount(lack.resource, lack.requested)}`;
}

/** What a node lacks for the pod: amounts and taints where they are known, else the filters' reasons. */
export const lacksOf = (verdict: NodeVerdict): string =>
  verdict.refusals.flatMap(({ lacks, reasons }) => (lacks.length ? lacks.map(lackText) : reasons)).join('; ');

/** Where a node that fits scores other than the first one, in weighted points. */
export function behindFirst(verdicts: Verdicts, verdict: NodeVerdict): string {
  const first = verdicts.nodes[0];
  const points = verdicts.scores.map(({ plugin, weight }) => [plugin, weight * ((verdict.scores[plugin] ?? 0) - (first.scores[plugin] ?? 0))] as const);
  return points.filter(([, by]) => by !== 0).map(([plugin, by]) => `${by > 0 ? '+' : '−'}${Math.abs(by)} ${shortPlugin(plugin)}`).join(', ');
}

/** The numbers of the attempts of a record. */
export const attemptNumbers = ({ attempt, repeats }: Attempt): string => (repeats ? `${attempt} to ${attempt + repeats}` : String(attempt));

/** The result of a record in a sentence. */
export function attemptText({ placed, refused, failed }: Attempt): string {
  if (placed) {
    const scores = Object.entries(placed.scores ?? {}).map(([plugin, score]) => `${shortPlugin(plugin)} ${score}`);
    const total = scores.length ? `; total ${placed.total}: ${scores.join(', ')}` : '';
    return `chose ${placed.node}: ${placed.evaluated} evaluated, ${placed.feasible} feasible, ${placed.best} best${total}`;
  }
  if (failed) return `failed: ${failed.message}`;
  const evictions = refused?.evictions;
  const victims = evictions ? ` Evicts ${evictions.pods?.join(', ') ?? `${evictions.count} pods`}${evictions.node ? ` from ${evictions.node}` : ''}.` : '';
  return `${refused?.message ?? 'found no node'}${victims}`;
}

/** A word of a shell command. */
export const shellWord = (text: string): string => (/^[A-Za-z0-9_.:/=@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** Commands that answer further questions about a pod. `at` is the revision of the slider; null: now. */
export function commands({ pod, state, node, computed }: Placement, at: number | null): string[] {
  const [namespace, name] = pod.split('/');
  const when = at === null ? '' : ` --at ${at}`;
  const found = [];
  const nearest = computed?.nodes[0]?.node;
  if (state === 'pending' && nearest) found.push(`kstore-server what-if --with-nodes ${shellWord(`1xnode/${nearest}`)}${when}`);
  if (state === 'placed' && node) found.push(`kstore-server what-if --without ${shellWord(`node/${node}`)}${when}`);
  found.push(`kstore-server explain ${shellWord(`pod/${name}`)} -n ${shellWord(namespace)} --placement --all-nodes${when}`);
  return found;
}
