// The language of the search field: words and `member:value` and `label=value`, all of which must match. Pure.

import type { Row } from './model.ts';

export interface Query {
  words: string[];
  members: [string, string][];
  labels: [string, string][];
}

/** Members that a query may name. */
export const MEMBERS = ['kind', 'ns', 'name', 'node', 'image', 'state'];

export function parseQuery(text: string): Query {
  const query: Query = { words: [], members: [], labels: [] };
  for (const part of text.toLowerCase().split(/\s+/).filter(Boolean)) {
    const colon = part.indexOf(':');
    const equals = part.indexOf('=');
    if (colon > 0 && MEMBERS.includes(part.slice(0, colon))) query.members.push([part.slice(0, colon), part.slice(colon + 1)]);
    else if (equals > 0) query.labels.push([part.slice(0, equals), part.slice(equals + 1)]);
    else query.words.push(part);
  }
  return query;
}

export const isEmpty = (query: Query): boolean => !query.words.length && !query.members.length && !query.labels.length;

export function matches(row: Row, query: Query): boolean {
  const has = (text: string | undefined, part: string) => (text ?? '').toLowerCase().includes(part);
  for (const [member, value] of query.members) {
    const found =
      member === 'kind' ? row.k === value || row.k.split('.')[0] === value || `${row.k.split('.')[0]}` === `${value}s` :
      member === 'ns' ? (row.n ?? '') === value :
      member === 'name' ? has(row.m, value) :
      member === 'node' ? has(row.d, value) || (row.k === 'nodes' && has(row.m, value)) :
      member === 'image' ? (row.i ?? []).some((image) => has(image, value)) :
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
