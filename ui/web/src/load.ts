// Readings of the server's metrics while a view shows them, and the load between them. The series is bounded.

import { batch, signal } from '@preact/signals';
import * as data from './data.ts';
import { loadBetween, read, verbsBetween, type Load, type Reading, type VerbLoad } from './metrics.ts';

/** Milliseconds between two readings. */
export const INTERVAL = 5_000;
/** Milliseconds that the charts show at most. */
export const SPAN = 15 * 60_000;
/** Milliseconds over which the requests of verbs are counted. */
const MINUTE = 60_000;
/** Readings between two questions for the revisions. */
const REVISIONS_EVERY = 12;

/** The load between readings, oldest first; null: a gap, since the page was elsewhere or the server was started again. */
export const loads = signal<(Load | null)[]>([]);
/** The requests of the last minute. */
export const verbs = signal<VerbLoad[]>([]);
export const last = signal<Reading | null>(null);
export const revisions = signal<data.Revisions | null>(null);
export const serverVersion = signal('');
/** Why there is no reading. */
export const problem = signal<data.Refusal | Error | null>(null);

/** Readings of the last minute. */
let recent: Reading[] = [];

/** Reads at once and then every [`INTERVAL`], until the function that is returned is called. */
export function begin(): () => void {
  const controller = new AbortController();
  void run(controller.signal);
  return () => controller.abort();
}

async function run(stop: AbortSignal): Promise<void> {
  data.serverVersion().then(({ gitVersion }) => (serverVersion.value = gitVersion), () => (serverVersion.value = ''));
  for (let count = 0; !stop.aborted; count++) {
    // Nobody looks at a hidden page.
    if (!document.hidden) {
      try {
        const text = await data.metrics(stop);
        add(read(text, Date.now()));
        if (count % REVISIONS_EVERY === 0) revisions.value = await data.revisions();
      } catch (error) {
        if (stop.aborted) return;
        problem.value = error as Error;
        const code = error instanceof data.Refusal ? error.code : 0;
        // What the user may not read now is asked for again when the view is opened again.
        if (code === 401 || code === 403 || code === 404) return;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, INTERVAL));
  }
}

function add(reading: Reading): void {
  const before = last.value;
  const isNext = before !== null && reading.t - before.t < 3 * INTERVAL;
  const load = isNext ? loadBetween(before, reading) : null;
  recent = isNext && load ? [...recent, reading].filter(({ t }) => reading.t - t <= MINUTE) : [reading];
  batch(() => {
    problem.value = null;
    last.value = reading;
    if (before) loads.value = [...loads.value, load].slice(-Math.ceil(SPAN / INTERVAL));
    verbs.value = verbsBetween(recent[0], reading);
  });
}
