// An object as lines of YAML, each with the managers that set it. Pure.

import { member, type Json } from './change.ts';

/** Who set a field, by the managed fields. */
export interface Owner {
  manager: string;
  operation: string;
  subresource: string;
  time: string;
}

export interface Line {
  indent: number;
  /** Beginning of the line: `- ` of items. */
  lead: string;
  /** Name of the member; empty for plain items. */
  name: string;
  /** Value; empty where lines below have it. */
  value: string;
  kind: 'text' | 'number' | 'word' | 'none';
  path: string;
  owners: Owner[];
}

type Fields = { [name: string]: Json };
interface Branch {
  owner: Owner;
  fields: Fields;
}

/** Longest value of a line, and most lines of a text. */
const WIDTH = 400;
const TEXT_LINES = 200;
const MOST_LINES = 5_000;

/** The order of members at the top, as kubectl prints them. */
const FIRST = ['apiVersion', 'kind', 'metadata', 'spec', 'data', 'status'];

/** The lines of an object. Managed fields are not among them: they are at the lines. */
export function lines(object: Json): Line[] {
  const found: Line[] = [];
  const branches = managers(object);
  const shown = isFields(object) && isFields(object.metadata) ? { ...object, metadata: without(object.metadata, 'managedFields') } : object;
  write(shown, 0, '', '', branches, found, '');
  return found;
}

const isFields = (value: Json | undefined): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value);
const without = (fields: Fields, name: string): Fields => Object.fromEntries(Object.entries(fields).filter(([own]) => own !== name));
const textOf = (value: Json | undefined): string => (typeof value === 'string' ? value : '');

function managers(object: Json): Branch[] {
  const entries = isFields(object) && isFields(object.metadata) ? object.metadata.managedFields : undefined;
  if (!Array.isArray(entries)) return [];
  return entries.flatMap((entry) => {
    if (!isFields(entry) || !isFields(entry.fieldsV1)) return [];
    const owner = { manager: textOf(entry.manager), operation: textOf(entry.operation), subresource: textOf(entry.subresource), time: textOf(entry.time) };
    return [{ owner, fields: entry.fieldsV1 }];
  });
}

/** The branches below a member or an item. */
function below(branches: Branch[], wanted: (name: string) => boolean): Branch[] {
  return branches.flatMap(({ owner, fields }) => {
    if (isWhole(fields)) return [{ owner, fields }];
    const name = Object.keys(fields).find(wanted);
    const inner = name === undefined ? undefined : fields[name];
    return isFields(inner) ? [{ owner, fields: inner }] : [];
  });
}

function ofItem(branches: Branch[], item: Json): Branch[] {
  return below(branches, (name) => {
    if (name.startsWith('k:') && isFields(item)) {
      const keys = parsed(name.slice(2));
      return isFields(keys) && Object.entries(keys).every(([key, value]) => JSON.stringify(item[key]) === JSON.stringify(value));
    }
    return name.startsWith('v:') && name.slice(2) === JSON.stringify(item);
  });
}

function parsed(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return null;
  }
}

/** Those who set the value itself, and not only something below it; the latest first. */
function ownersOf(branches: Branch[]): Owner[] {
  const own = branches.filter(({ fields }) => isWhole(fields) || '.' in fields);
  return own.map((branch) => branch.owner).sort((a, b) => (a.time < b.time ? 1 : -1));
}

/** Whether managed fields end here: what is below was set with it. */
const isWhole = (fields: Fields): boolean => Object.keys(fields).length === 0;

function write(value: Json, indent: number, lead: string, name: string, branches: Branch[], found: Line[], path: string): void {
  if (found.length >= MOST_LINES) return;
  // What follows in an item is below its first member, and not below the dash.
  const column = lead ? indent + 1 : indent;
  const line = (text: string, kind: Line['kind']) => found.push({ indent, lead, name, value: text, kind, path, owners: ownersOf(branches) });
  const isEmpty = isFields(value) ? !Object.keys(value).length : Array.isArray(value) && !value.length;
  if (isEmpty) {
    line(Array.isArray(value) ? '[]' : '{}', 'word');
  } else if (isFields(value)) {
    if (name) line('', 'none');
    const inner = name ? column + 1 : column;
    let first = name ? '' : lead;
    for (const own of order(Object.keys(value), path)) {
      const inside = below(branches, (field) => field === `f:${own}`);
      write(value[own], first ? indent : inner, first, own, inside, found, member(path, own));
      first = '';
    }
  } else if (Array.isArray(value)) {
    if (name) line('', 'none');
    value.forEach((item, at) => write(item, column, '- ', '', ofItem(branches, item), found, `${path}[${labelOf(item, at)}]`));
  } else if (typeof value === 'string') {
    text(value, column, line, found, path);
  } else {
    line(String(value), typeof value === 'number' ? 'number' : 'word');
  }
}

const labelOf = (item: Json, at: number): string => (isFields(item) && (textOf(item.name) || textOf(item.type))) || String(at);

function text(value: string, indent: number, line: (text: string, kind: Line['kind']) => void, found: Line[], path: string): void {
  if (!value.includes('\n')) {
    line(scalar(value), 'text');
    return;
  }
  line('|', 'word');
  const all = value.split('\n');
  if (all[all.length - 1] === '') all.pop();
  for (const part of all.slice(0, TEXT_LINES)) {
    found.push({ indent: indent + 1, lead: '', name: '', value: cut(part), kind: 'text', path, owners: [] });
  }
  if (all.length > TEXT_LINES) {
    found.push({ indent: indent + 1, lead: '', name: '', value: `… ${all.length - TEXT_LINES} more lines`, kind: 'none', path, owners: [] });
  }
}

const cut = (value: string): string => (value.length > WIDTH ? `${value.slice(0, WIDTH)}…` : value);

/** A text as a YAML scalar: quoted where it would be read as something else. */
export function scalar(value: string): string {
  const isPlain = /^[A-Za-z0-9_./@][^\u0000-\u001f\u007f]*$/.test(value) && !/: |:$| #|^\s|\s$/.test(value) &&
    !/^(true|false|null|yes|no|on|off|y|n|~)$/i.test(value) && !/^[-+.]?[0-9][-0-9_.eE+:]*$/.test(value);
  return cut(isPlain ? value : JSON.stringify(value));
}

function order(names: string[], path: string): string[] {
  const place = (name: string) => {
    const at = FIRST.indexOf(name);
    return at < 0 ? FIRST.length : at;
  };
  return path === '' ? [...names].sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1)) : [...names].sort();
}

/** The lines as one text. */
export const toText = (all: Line[]): string =>
  all.map((line) => '  '.repeat(line.indent) + line.lead + (line.name ? `${line.name}:${line.value ? ` ${line.value}` : ''}` : line.value)).join('\n');
