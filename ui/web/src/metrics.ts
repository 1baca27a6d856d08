// The server's metrics as the page shows them: what it takes from one reading of `/metrics`, and rates between two readings. Pure.

/** What the page takes from one reading of the metrics. */
export interface Reading {
  /** Milliseconds since 1970, by the browser's clock. */
  t: number;
  /** When the process started, in seconds since 1970: counters of another process begin anew. */
  started: number;
  /** Requests so far by verb. */
  requests: Map<string, number>;
  /** Requests so far with a code from 500 on, and those refused with 429. */
  failures: number;
  /** Requests so far by verb and by the upper bound of their duration in seconds, as Prometheus counts them: each bound has those below. */
  durations: Map<string, Map<number, number>>;
  /** Creates, updates and deletions of the storage so far. */
  writes: number;
  /** Events of watches so far. */
  events: number;
  /** Seconds of processor time so far. */
  processor: number;
  /** Bytes of resident memory. */
  memory: number;
  /** Open watches. */
  watches: number;
  /** Stored objects. */
  objects: number;
  /** Bytes of the storage's files, and of the history in them that is not removed; 0: not known. */
  storage: number;
  live: number;
  /** Restarts of components so far. */
  restarts: number;
}

/** Verbs whose requests last as long as the client wants. */
const LONG = new Set(['WATCH', 'CONNECT', 'PROXY']);
/** Operations of the storage that write. */
const WRITES = new Set(['create', 'update', 'delete']);

/** Reads a page in Prometheus' text format. */
export function read(text: string, t: number): Reading {
  const reading: Reading = { t, started: 0, requests: new Map(), failures: 0, durations: new Map(), writes: 0, events: 0, processor: 0, memory: 0, watches: 0, objects: 0, storage: 0, live: 0, restarts: 0 };
  for (const line of text.split('\n')) {
    const end = line.search(/[{ ]/);
    const take = end < 0 ? undefined : TAKE[line.slice(0, end)];
    if (!take) continue;
    const value = line.slice(line[end] === '{' ? line.lastIndexOf('}') + 2 : end + 1);
    take(reading, Number(value.split(' ')[0]), (name) => label(line, name));
  }
  return reading;
}

/** The value of a label in a line; labels of these metrics have no escapes. */
function label(line: string, name: string): string {
  const at = Math.max(line.indexOf(`{${name}="`), line.indexOf(`,${name}="`));
  if (at < 0) return '';
  const start = at + name.length + 3;
  return line.slice(start, line.indexOf('"', start));
}

type Take = (reading: Reading, value: number, label: (name: string) => string) => void;

/** What is taken from each metric, by its name. */
const TAKE: Record<string, Take> = {
  apiserver_request_total: (reading, value, label) => {
    add(reading.requests, label('verb'), value);
    const code = Number(label('code'));
    if (code >= 500 || code === 429) reading.failures += value;
  },
  apiserver_request_duration_seconds_bucket: (reading, value, label) => {
    const verb = label('verb');
    if (LONG.has(verb)) return;
    const bound = label('le');
    const known = reading.durations.get(verb) ?? new Map<number, number>();
    reading.durations.set(verb, known);
    add(known, bound === '+Inf' ? Infinity : Number(bound), value);
  },
  etcd_requests_total: (reading, value, label) => {
    if (WRITES.has(label('operation'))) reading.writes += value;
  },
  apiserver_watch_events_total: (reading, value) => void (reading.events += value),
  apiserver_longrunning_requests: (reading, value, label) => {
    if (label('verb') === 'WATCH') reading.watches += value;
  },
  apiserver_storage_objects: (reading, value) => void (reading.objects += Math.max(0, value)),
  apiserver_storage_size_bytes: (reading, value) => void (reading.storage += value),
  kstore_storage_live_bytes: (reading, value) => void (reading.live = value),
  kstore_component_restarts_total: (reading, value) => void (reading.restarts += value),
  process_cpu_seconds_total: (reading, value) => void (reading.processor = value),
  process_resident_memory_bytes: (reading, value) => void (reading.memory = value),
  process_start_time_seconds: (reading, value) => void (reading.started = value),
};

function add<K>(map: Map<K, number>, key: K, value: number): void {
  map.set(key, (map.get(key) ?? 0) + value);
}

/** What a server did between two readings, a second. */
export interface Load {
  t: number;
  requests: number;
  failures: number;
  writes: number;
  events: number;
  /** Processor time of a second: 1 is one core. */
  processor: number;
  memory: number;
  watches: number;
}

/** The load between two readings; null: the server was started again between them, or the readings are of the same moment. */
export function loadBetween(before: Reading, after: Reading): Load | null {
  const seconds = (after.t - before.t) / 1000;
  if (seconds <= 0 || before.started !== after.started) return null;
  const rate = (of: (reading: Reading) => number) => Math.max(0, of(after) - of(before)) / seconds;
  const { t, memory, watches } = after;
  return { t, requests: rate(({ requests }) => total(requests)), failures: rate(({ failures }) => failures), writes: rate(({ writes }) => writes), events: rate(({ events }) => events), processor: rate(({ processor }) => processor), memory, watches };
}

/** Numbers of all requests up to a reading. */
export const requestsUpTo = ({ requests }: Reading): number => total(requests);

/** Writes a second in equal parts of a window of times; none if they are of one moment. Each has the time of its end. */
export function writeRates(times: number[], parts: number): { t: number; value: number }[] {
  const [first, last] = [times[0] ?? 0, times[times.length - 1] ?? 0];
  const width = (last - first) / parts;
  if (!(width > 0)) return [];
  const counts = new Array<number>(parts).fill(0);
  for (const time of times) counts[Math.min(parts - 1, Math.floor((time - first) / width))]++;
  return counts.map((value, at) => ({ t: first + width * (at + 1), value: value / (width / 1000) }));
}

const total = (counts: Map<string, number>): number => [...counts.values()].reduce((sum, value) => sum + value, 0);

/** Requests of one verb between two readings. */
export interface VerbLoad {
  verb: string;
  /** Number of requests. */
  number: number;
  /** Requests a second. */
  rate: number;
  /** Upper bounds of the durations of half of them and of 99 of 100, in seconds; null: not measured. */
  p50: number | null;
  p99: number | null;
}

/** The requests between two readings by verb, the most frequent verb first. */
export function verbsBetween(before: Reading, after: Reading): VerbLoad[] {
  const seconds = (after.t - before.t) / 1000;
  return seconds <= 0 || before.started !== after.started ? [] : verbsAfter(before, after, seconds);
}

/** The requests up to a reading by verb, the most frequent verb first; `rate` is their number. */
export const verbsUpTo = (reading: Reading): VerbLoad[] => verbsAfter(read('', 0), reading, 1);

function verbsAfter(before: Reading, after: Reading, seconds: number): VerbLoad[] {
  const found: VerbLoad[] = [];
  for (const [verb, requests] of after.requests) {
    const number = requests - (before.requests.get(verb) ?? 0);
    if (number <= 0) continue;
    const old = before.durations.get(verb);
    const counts = [...(after.durations.get(verb) ?? [])].map(([bound, below]): [number, number] => [bound, below - (old?.get(bound) ?? 0)]);
    found.push({ verb, number, rate: number / seconds, p50: quantile(counts, 0.5), p99: quantile(counts, 0.99) });
  }
  return found.sort((a, b) => b.rate - a.rate || (a.verb < b.verb ? -1 : 1));
}

/** The smallest bound below which a share of all values is; null: there is no value. Counts are those of all values up to each bound. */
export function quantile(counts: [number, number][], share: number): number | null {
  const sorted = [...counts].sort(([a], [b]) => a - b);
  const all = sorted.length ? sorted[sorted.length - 1][1] : 0;
  if (all <= 0) return null;
  return sorted.find(([, below]) => below >= all * share)?.[0] ?? null;
}

/** A duration's upper bound, as people read it. The server's largest bound is a minute. */
export function bound(seconds: number | null): string {
  if (seconds === null) return '–';
  if (seconds === Infinity) return 'more than a minute';
  return seconds < 1 ? `≤ ${Math.round(seconds * 1000)} ms` : `≤ ${seconds} s`;
}

/** A number of a chart, short. */
export function short(value: number): string {
  if (value >= 1000) return `${(value / 1000).toFixed(1)}k`;
  return value >= 10 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(1);
}

/** Bytes in GiB, MiB, or KiB. */
export function bytes(value: number): string {
  if (value >= 2 ** 30) return `${(value / 2 ** 30).toFixed(1)} GiB`;
  return value >= 2 ** 20 ? `${Math.round(value / 2 ** 20)} MiB` : `${Math.round(value / 1024)} KiB`;
}

/**
 * The line of a chart: x is the time before the last value, from left to right over a span; y is 0 at the bottom. Parts between which a
 * value is missing, as after a start of the server, are lines of their own.
 */
export function chartLine(points: ({ t: number; value: number } | null)[], span: number, width: number, height: number): string {
  const last = [...points].reverse().find(Boolean)?.t ?? 0;
  const most = Math.max(...points.map((point) => point?.value ?? 0), Number.MIN_VALUE);
  let isNew = true;
  let line = '';
  for (const point of points) {
    const isShown = point !== null && last - point.t <= span;
    if (isShown) {
      const x = width * (1 - (last - point.t) / span);
      line += `${isNew ? 'M' : 'L'}${x.toFixed(1)} ${(height * (1 - point.value / most)).toFixed(1)}`;
    }
    isNew = !isShown;
  }
  return line;
}
