// The state of the page: the model, where it is, and what moves it.

import { batch, computed, effect, signal } from '@preact/signals';
import * as data from './data.ts';
import { kindNames } from './lanes.ts';
import type { Mark } from './marks.ts';
import { Model, type ChangeLine, type Row } from './model.ts';
import { format, HOME, parse, type Route } from './route.ts';
import { Scale } from './scale.ts';
import { Tree } from './tree.ts';

/** What the browser keeps for the page; null where it keeps nothing, as in the sandbox in which CI systems show reports. */
function storage(): Storage | null {
  try {
    return localStorage;
  } catch {
    return null;
  }
}

export type Phase = 'start' | 'login' | 'load' | 'ready' | 'failed';

export const phase = signal<Phase>('start');
/** What went wrong, or what the page waits for. */
export const message = signal('');
export const about = signal<data.Revisions | null>(null);
export const kinds = signal<Map<string, data.Kind>>(new Map());
export const isCut = signal(false);
/** Marks of the window, in the order of their revisions. */
export const marks = signal<Mark[]>([]);
export const isConnected = signal(false);
/** Grows with each change of the model. */
export const version = signal(0);
/** Whether the cursor follows new revisions. */
export const isLive = signal(true);
export const route = signal<Route>(HOME);
export const theme = signal<'light' | 'dark' | ''>((storage()?.getItem('kstore-ui-theme') as 'light' | 'dark' | null) ?? '');
export const isPlaying = signal(false);
export const showsHelp = signal(false);
/** Whether canvases are shown as tables. */
export const showsTables = signal(false);
/** Number of revisions that arrived behind the cursor since it stopped following. */
export const behind = computed(() => (void version.value, model.writes.length - model.at));

export let model = new Model(0);
export let scale = new Scale();

/** The tree at the cursor. */
export const tree = computed(() => (void version.value, new Tree(model.rows)));
export const revision = computed(() => (void version.value, model.revision()));

let controller = new AbortController();

/** Logs in and loads; called once. */
export async function start(): Promise<void> {
  addEventListener('hashchange', follow);
  // The stream of a machine that was asleep may hang: it begins anew.
  for (const name of ['offline', 'online']) addEventListener(name, () => controller.abort());
  try {
    if (!(await data.login())) {
      phase.value = 'login';
      return;
    }
  } catch (error) {
    fail(error);
    return;
  }
  follow();
  await run();
}

/** Loads the window and follows it until the session ends. A stream that breaks goes on at its last revision. */
async function run(): Promise<void> {
  let isLoaded = false;
  for (let failures = 0; ; ) {
    controller = new AbortController();
    try {
      if (!isLoaded) await load();
      await stream(!isLoaded, () => {
        isLoaded = true;
        failures = 0;
      });
    } catch (error) {
      isConnected.value = false;
      const code = error instanceof data.Refusal ? error.code : 0;
      if (code === 401 || code === 403) {
        fail(error);
        return;
      }
      if (phase.value !== 'ready') fail(error);
      // The history ends before the next revision, or it is another server's.
      if (code === 410 || code === 504) isLoaded = false;
      failures++;
      await pause(Math.min(10_000, 250 * 2 ** failures));
    }
  }
}

async function load(): Promise<void> {
  if (phase.value !== 'ready') {
    phase.value = 'load';
    message.value = 'asking for revisions';
  }
  const found = await data.revisions();
  const next = new Model(found.from);
  let count = 0;
  const read = await data.rows(found.from, controller.signal, (row: Row) => {
    next.addRow(row);
    if (++count % 500 === 0) message.value = `${count} objects at revision ${found.from}`;
  });
  for (const kind of read.kinds) kindNames.set(kind.resource, kind.kind);
  // The state before the first write of the window; what follows moves it to the newest one.
  batch(() => {
    model = next;
    scale = new Scale();
    about.value = found;
    marks.value = data.marksOf(found);
    isCut.value = read.isCut;
    kinds.value = new Map(read.kinds.map((kind) => [kind.resource, kind]));
  });
}

/** Writes beyond which the window begins anew at the newest ones, while the page is live. */
const MOST_WRITES = 40_000;

/** Follows the changes; streams that end in order are resumed. A new window is shown when its past has arrived. */
async function stream(isNew: boolean, arrived: () => void): Promise<void> {
  let isPast = isNew;
  for (;;) {
    await data.changes(model.newest(), controller.signal, (lines: ChangeLine[], isCurrent: boolean) => {
      for (const line of lines) add(line);
      if (isLive.value && model.writes.length > MOST_WRITES) throw new data.Refusal(410, 'the window is full');
      if (isPast && !isCurrent) {
        message.value = `${model.writes.length} revisions`;
        return;
      }
      arrived();
      isConnected.value = true;
      if (isPast) {
        isPast = false;
        phase.value = 'ready';
        if (route.value.at !== null) goTo(route.value.at);
      }
      changed();
    });
    isConnected.value = false;
    await pause(200);
  }
}

function add(line: ChangeLine): void {
  const before = model.writes.length;
  model.add(line, isLive.value);
  if (model.writes.length > before) scale.add(model.writes[before].t);
}

let isScheduled = false;
/** Shows what changed, once a frame. */
function changed(): void {
  if (isScheduled) return;
  isScheduled = true;
  const show = () => {
    isScheduled = false;
    version.value++;
  };
  if (document.hidden) setTimeout(show, 500);
  else requestAnimationFrame(show);
}

function fail(error: unknown): void {
  const isLogin = error instanceof data.Refusal && error.code === 401;
  if (isLogin) data.forget();
  phase.value = isLogin ? 'login' : 'failed';
  message.value = error instanceof Error ? error.message : String(error);
}

const pause = (time: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, time));

/** Takes the route of the address. */
function follow(): void {
  // A new link in a tab that shows the page, or asks for one.
  if (location.hash.startsWith('#login=')) {
    location.reload();
    return;
  }
  const next = parse(location.hash);
  const before = route.value;
  route.value = next;
  if (next.at !== before.at && phase.value === 'ready') {
    if (next.at === null) now();
    else goTo(next.at);
  } else if (next.at !== null) {
    isLive.value = false;
  }
}

/** Goes to a route; what is not said stays as it is. */
export function go(part: Partial<Route>, replaces = false): void {
  const next = { ...route.value, ...part };
  const address = format(next);
  if (address === (location.hash || '#/')) return;
  // At once: the event of a new address comes later, and what follows must not go on from the old one.
  route.value = next;
  if (replaces) history.replaceState(null, '', address);
  else location.hash = address;
}

/** The address of a route, for links. */
export const address = (part: Partial<Route>): string => format({ ...route.value, write: null, ...part });

let settled: ReturnType<typeof setTimeout> | undefined;

/** Moves all views to the state after a number of writes. */
export function moveTo(count: number): void {
  model.seek(count);
  isLive.value = false;
  changed();
  // The address follows when the slider rests, so that going back is no replay of a drag.
  clearTimeout(settled);
  settled = setTimeout(() => go({ at: model.revision() }, true), 120);
}

const goTo = (wanted: number): void => {
  isLive.value = false;
  model.seek(model.countUpTo(wanted));
  changed();
};

/** Follows new revisions again. */
export function now(): void {
  clearTimeout(settled);
  isPlaying.value = false;
  isLive.value = true;
  model.seek(model.writes.length);
  changed();
  go({ at: null }, true);
}

let player: ReturnType<typeof setInterval> | undefined;
effect(() => {
  clearInterval(player);
  if (!isPlaying.value) return;
  if (model.at >= model.writes.length) model.seek(0);
  player = setInterval(() => {
    if (model.at >= model.writes.length) now();
    else moveTo(model.at + 1);
  }, 120);
});

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  if (theme.value) storage()?.setItem('kstore-ui-theme', theme.value);
});

export function toggleTheme(): void {
  const isDark = theme.value ? theme.value === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  theme.value = isDark ? 'light' : 'dark';
}
