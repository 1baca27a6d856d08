// What differs between two states of an object, by path; the rules are those of `kstore-server history`. Pure.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
type Members = { [name: string]: Json };

export interface Change {
  path: string;
  from?: Json;
  to?: Json;
}

const MOST = 2_000;
const DEPTH = 64;
const KEYS = [['uid'], ['name'], ['type'], ['containerPort', 'protocol'], ['port', 'protocol'], ['mountPath'], ['key'], ['ip']];
const LEFT_OUT = ['managedFields', 'resourceVersion', 'generation'];
const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

const isMembers = (value: Json | undefined): value is Members => typeof value === 'object' && value !== null && !Array.isArray(value);

export const equal = (a: Json | undefined, b: Json | undefined): boolean => {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, at) => equal(item, b[at]));
  if (isMembers(a) && isMembers(b)) {
    const names = Object.keys(a);
    return names.length === Object.keys(b).length && names.every((name) => name in b && equal(a[name], b[name]));
  }
  return false;
};

export function changes(old: Json, now: Json, allFields = false): Change[] {
  const found: Change[] = [];
  compare('', allFields ? old : withoutRepeats(old), allFields ? now : withoutRepeats(now), DEPTH, found);
  return found;
}

/** An object without what every write changes. */
export function withoutRepeats(object: Json): Json {
  if (!isMembers(object) || !isMembers(object.metadata)) return object;
  const metadata: Members = { ...object.metadata };
  for (const name of LEFT_OUT) delete metadata[name];
  if (isMembers(metadata.annotations)) {
    const annotations = { ...metadata.annotations };
    delete annotations[LAST_APPLIED];
    metadata.annotations = annotations;
    if (!Object.keys(annotations).length) delete metadata.annotations;
  }
  return { ...object, metadata };
}

function compare(path: string, old: Json | undefined, now: Json | undefined, depth: number, found: Change[]): void {
  if (equal(old, now)) return;
  const before = found.length;
  const keyed = Array.isArray(old) && Array.isArray(now) && depth > 0 ? itemsOf(old, now) : null;
  if (isMembers(old) && isMembers(now) && depth > 0) {
    for (const name of [...new Set([...Object.keys(old), ...Object.keys(now)])].sort()) compare(member(path, name), own(old, name), own(now, name), depth - 1, found);
  } else if (keyed) {
    compareItems(path, keyed[0], keyed[1], depth, found);
  } else {
    found.push({ path, from: old, to: now });
  }
  if (found.length - before > MOST) {
    found.length = before;
    found.push({ path, from: old, to: now });
  }
}

const own = (members: Members, name: string): Json | undefined => (Object.hasOwn(members, name) ? members[name] : undefined);

type Items = Map<string, Json>;

function compareItems(path: string, old: Items, now: Items, depth: number, found: Change[]): void {
  for (const key of new Set([...old.keys(), ...now.keys()])) compare(`${path}[${key}]`, old.get(key), now.get(key), depth - 1, found);
  const before = [...old.keys()].filter((key) => now.has(key));
  const after = [...now.keys()].filter((key) => old.has(key));
  if (!equal(before, after)) found.push({ path: `${path} (order)`, from: before, to: after });
}

function itemsOf(one: Json[], other: Json[]): [Items, Items] | null {
  for (const members of KEYS) {
    const a = keyedBy(one, members);
    const b = a && keyedBy(other, members);
    if (a && b) return [a, b];
  }
  return null;
}

/** The items of a list by the members that tell them apart; null if nothing does. */
export function keyedBy(list: Json[], members: string[]): Items | null {
  const items: Items = new Map();
  for (const item of list) {
    const parts = members.map((name, at) => {
      const value = isMembers(item) ? own(item, name) : undefined;
      if (typeof value === 'string' || typeof value === 'number') return String(value);
      return value === undefined && at > 0 ? 'TCP' : null;
    });
    const key = parts.join('/');
    if (parts.includes(null) || items.has(key)) return null;
    items.set(key, item);
  }
  return items;
}

export const member = (path: string, name: string): string => (/[.[ ]/.test(name) ? `${path}[${name}]` : path ? `${path}.${name}` : name);

/** An object of the kind Secret without its values. */
export function masked(object: Json): Json {
  if (!isMembers(object) || object.kind !== 'Secret') return object;
  const hide = (values: Json | undefined): Json | undefined =>
    isMembers(values) ? Object.fromEntries(Object.entries(values).map(([name, value]) => [name, isMasked(value) ? value : `••• (${bytes(value)} bytes)`])) : values;
  const shown: Members = { ...object };
  for (const part of ['data', 'stringData']) if (part in shown) shown[part] = hide(shown[part]) ?? null;
  return withoutCopies(shown);
}

/** Names, after the slash, of annotations in which tools keep the whole object that they wrote: those of `ui/src/secret_copies.rs`. */
const COPIES = ['last-applied-configuration', 'last-applied', 'last-handled-configuration', 'original', 'original-diff', 'original-diff-full', 'applied'];

/** A Secret without what its annotations repeat of it. */
function withoutCopies(secret: Members): Members {
  const metadata = isMembers(secret.metadata) ? { ...secret.metadata } : {};
  if (isMembers(metadata.annotations)) {
    metadata.annotations = Object.fromEntries(Object.entries(metadata.annotations).map(([name, value]) => [name, COPIES.includes(name.slice(name.lastIndexOf('/') + 1)) ? '•••' : value]));
  }
  return { ...secret, metadata };
}

/** Whether the source has hidden a value: none begins so in base64. */
const isMasked = (value: Json): boolean => typeof value === 'string' && value.startsWith('•••');

const bytes = (value: Json): number => {
  const text = typeof value === 'string' ? value : '';
  return Math.max(0, Math.floor((text.length * 3) / 4) - (text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0));
};

/** The changes between two states, with values of Secrets hidden. */
export function shownChanges(old: Json, now: Json): Change[] {
  const isSecret = (object: Json): object is Members => isMembers(object) && object.kind === 'Secret';
  if (!isSecret(old) && !isSecret(now)) return changes(old, now);
  const bare = (object: Json): Json => (isSecret(object) ? withoutCopies(object) : object);
  const found = changes(bare(old), bare(now));
  return found.map((change) => (/^(data|stringData)\b/.test(change.path)
    ? { path: change.path, ...('from' in change && change.from !== undefined ? { from: '•••' } : {}), ...(change.to !== undefined ? { to: '•••' } : {}) }
    : change));
}

/** A value in a line. */
export function shortValue(value: Json | undefined, width = 120): string {
  if (value === undefined) return '–';
  const text = typeof value === 'string' && value !== '' ? value : JSON.stringify(value);
  const plain = text.replace(/\n/g, '⏎').replace(/[\u0000-\u001f\u007f]/g, '\ufffd');
  return plain.length > width ? `${plain.slice(0, width)}…` : plain;
}
