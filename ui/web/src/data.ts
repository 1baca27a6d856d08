// Requests of the page: login, streams of lines, objects at revisions. Every request has the session's key. A page that is in a report reads
// that instead.

import type { ChangeLine, Row } from './model.ts';
import type { Json } from './change.ts';
import type { Mark } from './marks.ts';
import type { Placement } from './scheduling.ts';
import { Report, type About, type ServerReading } from './report.ts';
import { Refusal, type Source } from './source.ts';

export { Refusal };

const KEY = 'kstore-ui-key';

/** A kind, as the first line of the rows names it. */
export interface Kind {
  resource: string;
  group: string;
  version: string;
  plural: string;
  kind: string;
  namespaced: boolean;
  visible: 'all' | 'some' | 'none';
}

export interface Revisions {
  /** The first revision from which the server tells changes. */
  from: number;
  clock: 'real' | 'virtual';
  user: string;
  /** The revision up to which older states are gone. */
  compacted: number;
  newest: { revision: number };
  /** Revisions with names. */
  tags: { name: string; revision: number }[];
}

/** The element with the data of a report; null: the page is of a server. */
const element = typeof document === 'undefined' ? null : document.getElementById('kstore-report');

/** Whether the page is in a report, so that there is no server. */
export const isReport = element !== null;
let report: Report | null = null;

/** What the report says about itself; null on the page of a server. */
export const aboutReport = (): About | null => report?.about ?? null;

/** The reading of the server's metrics in a report. */
export const reportReading = (): ServerReading | null => report?.reading ?? null;

/** What the scheduler says in a report about the pods of a name. */
export const reportPlacements = (key: string): Placement[] => report?.placements(key) ?? [];

/** The marks of a report, or the tags of a server. */
export const marksOf = ({ tags }: Revisions): Mark[] => report?.marks ?? (tags ?? []).map(({ name, revision }): Mark => ({ kind: 'tag', r: revision, text: name })).sort((a, b) => a.r - b.r);

/** Reads the report; or exchanges the link token in the address for a session. True if there is one. */
export async function login(): Promise<boolean> {
  if (element) {
    report = await Report.open(element.textContent ?? '');
    return true;
  }
  const token = /^#login=([A-Za-z0-9_-]+)$/.exec(location.hash)?.[1];
  if (!token) return sessionStorage.getItem(KEY) !== null;
  history.replaceState(null, '', `${location.pathname}#/`);
  const response = await fetch('session', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ token }) });
  if (!response.ok) throw await refusal(response);
  const answer = (await response.json()) as { key: string };
  sessionStorage.setItem(KEY, answer.key);
  return true;
}

export function forget(): void {
  sessionStorage.removeItem(KEY);
}

async function open(path: string, signal?: AbortSignal): Promise<Response> {
  if (isReport) throw new Refusal(0, 'A report has no server that could be asked.');
  const headers = { 'kstore-ui': sessionStorage.getItem(KEY) ?? '', accept: 'application/json' };
  const response = await fetch(path, { headers, cache: 'no-store', redirect: 'error', ...(signal ? { signal } : {}) });
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response: Response): Promise<Refusal> {
  const text = await response.text().catch(() => '');
  let message = text.trim() || response.statusText;
  try {
    message = (JSON.parse(text) as { message?: string }).message ?? message;
  } catch {
    // A refusal in plain text.
  }
  return new Refusal(response.status, message.slice(0, 500));
}

const source = (): Source => report ?? server;

/** The window, and as whom it is read. */
export const revisions = (): Promise<Revisions> => source().revisions();

/** The rows at a revision. */
export const rows = (at: number, signal: AbortSignal, add: (row: Row) => void): Promise<{ kinds: Kind[]; isCut: boolean }> => source().rows(at, signal, add);

/** The revisions after one, and then the new ones until the source ends the stream. */
export const changes = (after: number, signal: AbortSignal, add: (lines: ChangeLine[], isCurrent: boolean) => void): Promise<void> => source().changes(after, signal, add);

/** An object at a revision; null: there was none. */
export const objectAt = (kind: Kind, namespace: string, name: string, revision: number): Promise<Json> => source().objectAt(kind, namespace, name, revision);

/** A server behind the page's own origin. */
const server: Source = {
  revisions: async () => (await open('/kstore/v1/revisions')).json() as Promise<Revisions>,
  rows: rowsOfServer,
  changes: changesOfServer,
  objectAt: objectOfServer,
};

/** The lines of an answer, in the parts in which they arrive. */
async function* lines(path: string, signal: AbortSignal): AsyncGenerator<unknown[]> {
  const response = await open(path, signal);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const parts = (rest + value).split('\n');
    rest = parts.pop() ?? '';
    if (parts.length) yield parts.filter(Boolean).map((line) => JSON.parse(line) as unknown);
  }
  if (rest) throw new Refusal(502, 'the answer ends within a line');
}

interface Trouble {
  error?: { code: number; message: string };
}

/** The rows at a revision. The first line has the kinds, the last one whether all rows were sent. */
async function rowsOfServer(at: number, signal: AbortSignal, add: (row: Row) => void): Promise<{ kinds: Kind[]; isCut: boolean }> {
  let kinds: Kind[] = [];
  let end: { cut: boolean } | null = null;
  for await (const part of lines(`/kstore/v1/rows?at=${at}`, signal)) {
    for (const line of part as (Row & Trouble & { kinds?: Kind[]; end?: number; cut?: boolean })[]) {
      if (line.error) throw new Refusal(line.error.code, line.error.message);
      if (line.kinds) kinds = line.kinds;
      else if (line.end !== undefined) end = { cut: line.cut === true };
      else add(line);
    }
  }
  if (!end) throw new Refusal(502, 'the rows end before their last line');
  return { kinds, isCut: end.cut };
}

/** The revisions after one, and then the new ones until the server ends the stream. */
async function changesOfServer(after: number, signal: AbortSignal, add: (lines: ChangeLine[], isCurrent: boolean) => void): Promise<void> {
  let isCurrent = false;
  for await (const part of lines(`/kstore/v1/changes?after=${after}&follow=1`, signal)) {
    const found: ChangeLine[] = [];
    for (const line of part as (ChangeLine & Trouble & { now?: number })[]) {
      if (line.error) throw new Refusal(line.error.code, line.error.message);
      if (line.now !== undefined) isCurrent = true;
      else found.push(line);
    }
    add(found, isCurrent);
  }
}

/** Why a pod is on its node, or on none; at a revision or now. The page's process computes it from the server's answers. */
export async function placement(namespace: string, name: string, at: number | null, signal: AbortSignal): Promise<Placement> {
  const query = new URLSearchParams({ pod: `${namespace}/${name}` });
  if (at !== null) query.set('at', String(at));
  return (await open(`placement?${query}`, signal)).json() as Promise<Placement>;
}

/** The server's metrics, as Prometheus reads them. */
export const metrics = async (signal: AbortSignal): Promise<string> => (await open('/metrics', signal)).text();

/** The version of the server. */
export const serverVersion = async (): Promise<{ gitVersion: string }> => (await open('/version')).json() as Promise<{ gitVersion: string }>;

const states = new Map<string, Promise<Json>>();
const MOST_STATES = 200;

/** An object at a revision; null: there was none. */
function objectOfServer(kind: Kind, namespace: string, name: string, revision: number): Promise<Json> {
  const group = kind.group ? `/apis/${kind.group}` : '/api';
  const scope = kind.namespaced ? `/namespaces/${encodeURIComponent(namespace)}` : '';
  const path = `${group}/${kind.version}${scope}/${kind.plural}/${encodeURIComponent(name)}?resourceVersion=${revision}&resourceVersionMatch=Exact`;
  const known = states.get(path);
  if (known) return known;
  const read = open(path)
    .then((response) => response.json() as Promise<Json>)
    .catch((error: unknown) => {
      if (error instanceof Refusal && error.code === 404) return null;
      states.delete(path);
      throw error;
    });
  states.set(path, read);
  if (states.size > MOST_STATES) states.delete(states.keys().next().value!);
  return read;
}
