// The report that the page is in: its data element, read in place of a server. docs/report.md has the format.

import type { Json } from './change.ts';
import type { Kind, Revisions } from './data.ts';
import { readMarks, type Mark } from './marks.ts';
import { keyOf, rowKey, type ChangeLine, type Effect, type Row } from './model.ts';
import type { Placement } from './scheduling.ts';
import { Refusal, type Source } from './source.ts';

const FIRST_LINE = /^KSTORE-REPORT ([0-9]{1,9})\n/;
const VERSION = 1;
const TYPE_BYTES = 8;
const HEAD_BYTES = TYPE_BYTES + 4;
/** What all chunks may have, inflated. */
const MOST_INFLATED = 256 * 1024 * 1024;

/** What a report says about itself. */
export interface About {
  title: string;
  time: string;
  clock: 'real' | 'virtual';
  user: string;
  namespace: string;
  failure: string;
  output: string;
  version: string;
  from: number;
  leftOut: { what: string; count: number }[];
}

/** A reading of the server's metrics. */
export interface ServerReading {
  version: string | null;
  /** A part of its page in Prometheus' text format. */
  metrics: string;
}

/** A path and the value there; without a value the member is removed. */
export type Edit = [path: (string | number)[], value?: Json];

type Members = { [name: string]: Json };

const isMembers = (value: Json | undefined): value is Members => typeof value === 'object' && value !== null && !Array.isArray(value);

/** A value with edits that were made for it. The value itself stays as it is. */
export const applyEdits = (value: Json, edits: Edit[]): Json => edits.reduce((before, edit) => edited(before, edit, 0), value);

function edited(value: Json, edit: Edit, depth: number): Json {
  const [path] = edit;
  if (depth === path.length) return edit[1] ?? null;
  const part = path[depth];
  if (typeof part === 'number') {
    const items = Array.isArray(value) ? [...value] : [];
    items[part] = edited(items[part] ?? null, edit, depth + 1);
    return items;
  }
  const members = isMembers(value) ? { ...value } : {};
  if (edit.length === 1 && depth === path.length - 1) {
    delete members[part];
    return members;
  }
  const inner = edited(Object.hasOwn(members, part) ? members[part] : null, edit, depth + 1);
  // An assignment to `__proto__` would be none to a member.
  Object.defineProperty(members, part, { value: inner, enumerable: true, configurable: true, writable: true });
  return members;
}

/** The lines of each chunk of a data element. */
export async function readChunks(text: string): Promise<Map<string, unknown[]>> {
  let data: Uint8Array;
  try {
    data = Uint8Array.from(atob(text.trim()), (char) => char.charCodeAt(0));
  } catch {
    throw damaged('its data are no base64');
  }
  const head = FIRST_LINE.exec(new TextDecoder('latin1').decode(data.subarray(0, 32)));
  if (!head) throw damaged('its data begin with another line');
  if (Number(head[1]) > VERSION) throw new Refusal(0, `The report has version ${head[1]} of the format, and this page reads up to version ${VERSION}.`);
  const chunks = new Map<string, unknown[]>();
  let room = MOST_INFLATED;
  for (let at = head[0].length; at < data.length; ) {
    if (at + HEAD_BYTES > data.length) throw damaged('it ends within a chunk');
    const kind = new TextDecoder('latin1').decode(data.subarray(at, at + TYPE_BYTES)).trimEnd();
    const length = new DataView(data.buffer, data.byteOffset + at + TYPE_BYTES, 4).getUint32(0, true);
    at += HEAD_BYTES;
    if (at + length > data.length) throw damaged(`it ends within the chunk ${kind}`);
    const inflated = await inflate(data.subarray(at, at + length), room, kind);
    room -= inflated.length;
    at += length;
    try {
      chunks.set(kind, inflated.split('\n').filter(Boolean).map((line) => JSON.parse(line) as unknown));
    } catch {
      throw damaged(`the chunk ${kind} has a line that is no JSON`);
    }
  }
  return chunks;
}

const damaged = (what: string): Refusal => new Refusal(0, `The report is damaged: ${what}.`);

async function inflate(bytes: Uint8Array, room: number, kind: string): Promise<string> {
  const parts: string[] = [];
  let length = 0;
  try {
    const stream = new Blob([bytes as Uint8Array<ArrayBuffer>]).stream().pipeThrough(new DecompressionStream('deflate')).pipeThrough(new TextDecoderStream());
    for (const reader = stream.getReader(); length <= room; ) {
      const { done, value } = await reader.read();
      if (done) return parts.join('');
      parts.push(value);
      length += value.length;
    }
  } catch {
    throw damaged(`the chunk ${kind} cannot be inflated`);
  }
  throw damaged(`it inflates beyond ${MOST_INFLATED / 1024 / 1024} MiB`);
}

/** The state of an object after a write: edits of the one before, or all of it. Null: it is not in the report, or the object is gone. */
interface State {
  revision: number;
  isDeleted: boolean;
  body: Edit[] | Json;
}

/** An object of a line: resource, namespace, name, effect, its row and its state, both as edits of those before or whole. */
type Changed = [string, string, string, Effect, Edit[] | Row | null, Edit[] | Json];

/** The report as a source. */
export class Report implements Source {
  private readonly first = new Map<string, Json>();
  private readonly states = new Map<string, State[]>();
  private readonly lines: ChangeLine[] = [];
  private readonly rowsAtFirst: Map<string, Row>;

  /** What the scheduler says about pods, by their keys. */
  private readonly said = new Map<string, Placement[]>();
  /** The last reading of the server's metrics; null: there is none. */
  reading: ServerReading | null = null;
  marks: Mark[] = [];

  private constructor(readonly about: About, private readonly kinds: Kind[], rows: Row[]) {
    this.rowsAtFirst = new Map(rows.map((row) => [rowKey(row), row]));
  }

  /** Reads a data element. */
  static async open(text: string): Promise<Report> {
    const chunks = await readChunks(text);
    const [about] = (chunks.get('meta') ?? []) as About[];
    const [head, ...rows] = (chunks.get('rows') ?? []) as [{ kinds: Kind[] } | undefined, ...Row[]];
    if (!about || !head) throw damaged('it has no rows');
    const report = new Report(about, head.kinds, rows);
    for (const [kind, namespace, name, state] of (chunks.get('base') ?? []) as [string, string, string, Json][]) report.first.set(keyOf(kind, namespace, name), state);
    for (const placement of (chunks.get('attempts') ?? []) as Placement[]) {
      const key = `pods/${placement.pod}`;
      report.said.set(key, [...(report.said.get(key) ?? []), placement]);
    }
    report.reading = ((chunks.get('server') ?? []) as ServerReading[]).at(-1) ?? null;
    report.marks = readMarks(chunks.get('marks') ?? []);
    report.follow((chunks.get('changes') ?? []) as (Omit<ChangeLine, 'o'> & { o: Changed[] })[]);
    return report;
  }

  /** Makes lines with whole rows of lines with edits. */
  private follow(lines: (Omit<ChangeLine, 'o'> & { o: Changed[] })[]): void {
    const rows = new Map<string, Row>(this.rowsAtFirst);
    for (const line of lines) {
      const objects = line.o.map(([kind, namespace, name, effect, shown, body]): ChangeLine['o'][number] => {
        const key = keyOf(kind, namespace, name);
        const row = Array.isArray(shown) ? (applyEdits((rows.get(key) ?? null) as Json, shown) as unknown as Row) : shown;
        if (row) rows.set(key, row);
        else rows.delete(key);
        const known = this.states.get(key);
        const state = { revision: line.r, isDeleted: effect === 'deleted', body };
        if (known) known.push(state);
        else this.states.set(key, [state]);
        return [kind, namespace, name, effect, row];
      });
      this.lines.push({ ...line, o: objects });
    }
  }

  /** What the scheduler says about the pods of a name. */
  placements(key: string): Placement[] {
    return this.said.get(key) ?? [];
  }

  revisions(): Promise<Revisions> {
    const { from, clock, user } = this.about;
    return Promise.resolve({ from, clock, user, compacted: from, newest: { revision: this.lines.at(-1)?.r ?? from }, tags: [] });
  }

  rows(_at: number, _signal: AbortSignal, add: (row: Row) => void): Promise<{ kinds: Kind[]; isCut: boolean }> {
    this.rowsAtFirst.forEach((row) => add(row));
    return Promise.resolve({ kinds: this.kinds, isCut: false });
  }

  /** All lines at once. The stream does not end by itself: nothing new comes. */
  changes(after: number, signal: AbortSignal, add: (lines: ChangeLine[], isCurrent: boolean) => void): Promise<void> {
    add(this.lines.filter((line) => line.r > after), true);
    return new Promise((resolve) => signal.addEventListener('abort', () => resolve()));
  }

  objectAt(kind: Kind, namespace: string, name: string, revision: number): Promise<Json> {
    const key = keyOf(kind.resource, namespace, name);
    let state = this.first.get(key);
    let exists = state !== undefined || this.rowsAtFirst.has(key);
    let isLeftOut = exists && state === undefined;
    for (const next of this.states.get(key) ?? []) {
      if (next.revision > revision) break;
      exists = !next.isDeleted;
      isLeftOut = exists && next.body === null;
      if (next.isDeleted) state = undefined;
      else if (next.body !== null) state = isEdits(next.body) ? applyEdits(state ?? null, next.body) : next.body;
    }
    if (!exists) return Promise.resolve(null);
    if (isLeftOut || state === undefined) return Promise.reject(new Refusal(0, 'This state is not in the report; the overview says what was left out.'));
    return Promise.resolve(state);
  }
}

/** Objects are no lists, so a list has edits. */
const isEdits = (body: Edit[] | Json): body is Edit[] => Array.isArray(body);
