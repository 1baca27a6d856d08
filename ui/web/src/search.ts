// The language of the search field: words and `member:value` and `label=value`, all of which must match. Pure.

import { programOf, rowKey, type Model, type Row } from './model.ts';

export interface Query {
  words: string[];
  members: [string, string][];
  labels: [string, string][];
  /** What the field says of parts that are not what they look like: members that do not exist, and values that a member does not have. */
  notes: string[];
}

/** Members that a query may name. */
export const MEMBERS = ['kind', 'ns', 'name', 'node', 'image', 'state', 'phase', 'by', 'rev', 'deleted'];

/** The states that a phase of pods has. A pod that is being deleted has the state `ending`, whatever its phase. */
const PHASES: Record<string, string[]> = { pending: ['pending', 'progress'], running: ['ready', 'unready'], succeeded: ['done'], failed: ['failed'] };

/** What a search may ask of an object besides its row. */
export interface Facts {
  /** Users and programs of the writes to it in the window, in small letters. */
  writers: () => string[];
  /** Whether the window has a write to it with this revision. */
  hasRevision: (revision: number) => boolean;
  /** Whether it does not exist at the cursor. */
  isDeleted: () => boolean;
}

export function parseQuery(text: string): Query {
  const query: Query = { words: [], members: [], labels: [], notes: [] };
  for (const part of text.toLowerCase().split(/\s+/).filter(Boolean)) {
    const colon = part.indexOf(':');
    const equals = part.indexOf('=');
    if (colon > 0 && MEMBERS.includes(part.slice(0, colon))) {
      const [member, value] = [part.slice(0, colon), part.slice(colon + 1)];
      query.members.push([member, value]);
      const expected = expectedBy(member, value);
      if (expected) query.notes.push(`${part}: ${member} is ${expected}`);
    } else if (equals > 0) query.labels.push([part.slice(0, equals), part.slice(equals + 1)]);
    else {
      query.words.push(part);
      // An image has a colon, too.
      if (colon > 0) query.notes.push(`${part} is searched as a word: members are ${MEMBERS.join(', ')}`);
    }
  }
  return query;
}

/** What a member's value should be; null if it is that. */
function expectedBy(member: string, value: string): string | null {
  if (member === 'rev') return revisionOf(value) ? null : 'a revision, such as 263';
  if (member === 'deleted') return value === 'yes' || value === 'no' ? null : 'yes or no';
  if (member === 'phase') return value in PHASES ? null : `one of ${Object.keys(PHASES).join(', ')}`;
  return value ? null : 'not empty';
}

/** The revision in `263` or `#263`; 0 if there is none. */
const revisionOf = (text: string): number => (/^#?\d{1,15}$/.test(text) ? Number(text.replace('#', '')) : 0);

/** Whether a query asks for objects that do not exist at the cursor. */
export const wantsDeleted = (query: Query): boolean => query.members.some(([member, value]) => member === 'deleted' && value === 'yes');

/** What the window knows of an object. */
export function factsOf(model: Model, row: Row): Facts {
  const key = rowKey(row);
  const writes = () => (model.byKey.get(key) ?? []).map((index) => model.writes[index]);
  return {
    writers: () => writes().flatMap((write) => [write.user.toLowerCase(), programOf(write.agent).toLowerCase()]),
    hasRevision: (revision) => writes().some((write) => write.r === revision),
    isDeleted: () => !model.rows.has(key),
  };
}

/** The last rows of the objects that were deleted between the first state of the window and the cursor. */
export function deletedRows(model: Model): Row[] {
  const found: Row[] = [];
  for (const [key, indexes] of model.byKey) {
    if (model.rows.has(key)) continue;
    const last = indexes.filter((index) => index < model.at).pop();
    if (last === undefined) continue;
    const row = model.writes[last].touches.filter((touch) => touch.key === key).pop()?.before;
    if (row) found.push(row);
  }
  return found;
}

export const isEmpty = (query: Query): boolean => !query.words.length && !query.members.length && !query.labels.length;

export function matches(row: Row, query: Query, facts: Facts): boolean {
  const has = (text: string | undefined, part: string) => (text ?? '').toLowerCase().includes(part);
  for (const [member, value] of query.members) {
    const found =
      member === 'kind' ? row.k === value || row.k.split('.')[0] === value || `${row.k.split('.')[0]}` === `${value}s` :
      member === 'ns' ? (row.n ?? '') === value :
      member === 'name' ? has(row.m, value) :
      member === 'node' ? has(row.d, value) || (row.k === 'nodes' && has(row.m, value)) :
      member === 'image' ? (row.i ?? []).some((image) => has(image, value)) :
      member === 'phase' ? row.k === 'pods' && (PHASES[value] ?? []).includes(row.s ?? '') :
      member === 'by' ? value !== '' && facts.writers().some((writer) => has(writer, value)) :
      member === 'rev' ? revisionOf(value) > 0 && facts.hasRevision(revisionOf(value)) :
      member === 'deleted' ? (value === 'yes' ? facts.isDeleted() : value === 'no' && !facts.isDeleted()) :
      (row.s ?? '') === value;
    if (!found) return false;
  }
  for (const [label, value] of query.labels) {
    const found = Object.entries(row.l ?? {}).some(([key, own]) => (key.toLowerCase() === label || key.toLowerCase().endsWith(`/${label}`)) && own.toLowerCase() === value);
    if (!found) return false;
  }
  return query.words.every((word) => has(row.m, word) || has(row.k, word) || has(row.n, word) || (row.i ?? []).some((image) => has(image, word)) ||
    Object.entries(row.l ?? {}).some(([key, value]) => has(key, word) || has(value, word)));
}
