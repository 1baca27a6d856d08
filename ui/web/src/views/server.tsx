// The server's load over the last minutes: rates between readings of its metrics, while this view is open.

import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { Refusal } from '../data.ts';
import * as load from '../load.ts';
import { bound, bytes, chartLine, short, type Load } from '../metrics.ts';
import * as store from '../store.ts';
import { age, second } from '../text.ts';
import { Card, Empty, RevisionLink } from './parts.tsx';

const WIDTH = 300;
const HEIGHT = 60;
/** Milliseconds that a chart shows at first. It grows to the bound of the series. */
const SHORTEST = 60_000;

/** What is drawn over time. */
const CHARTS: { id: string; title: string; of: (load: Load) => number; text: (value: number) => string }[] = [
  { id: 'requests', title: 'Requests per second', of: ({ requests }) => requests, text: short },
  { id: 'failures', title: 'Failures per second', of: ({ failures }) => failures, text: short },
  { id: 'writes', title: 'Writes per second', of: ({ writes }) => writes, text: short },
  { id: 'events', title: 'Watch events per second', of: ({ events }) => events, text: short },
  { id: 'watches', title: 'Open watches', of: ({ watches }) => watches, text: short },
  { id: 'processor', title: 'CPU, of one core', of: ({ processor }) => processor, text: (value) => `${(value * 100).toFixed(0)} %` },
  { id: 'memory', title: 'Memory', of: ({ memory }) => memory, text: bytes },
];

export function Server() {
  useEffect(() => load.begin(), []);
  const problem = load.problem.value;
  const last = load.last.value;
  if (problem && !last) return <Refused problem={problem} />;
  return (
    <div class="server">
      <Facts />
      {problem && <p class="problem">No new readings: {problem.message}</p>}
      {store.showsTables.value ? (
        <Readings />
      ) : (
        <div class="charts">
          {CHARTS.map((chart) => (
            <Chart key={chart.id} {...chart} />
          ))}
        </div>
      )}
      <Verbs />
    </div>
  );
}

function Refused({ problem }: { problem: Error }) {
  const isForbidden = problem instanceof Refusal && problem.code === 403;
  return (
    <Card id="server" title="Server">
      <div class="place">
        <p class="problem">{problem.message}</p>
        {isForbidden && (
          <p>
            This view reads <code>/metrics</code>, which the ClusterRole <code>system:monitoring</code> allows. An administrator can bind it:{' '}
            <code>kubectl create clusterrolebinding NAME --clusterrole=system:monitoring --user={store.about.value?.user}</code>
          </p>
        )}
      </div>
    </Card>
  );
}

function Facts() {
  const last = load.last.value;
  const revisions = load.revisions.value;
  return (
    <Card id="server" title="Server" note="as it is now, wherever the slider is">
      {!last && <Empty>reading the metrics…</Empty>}
      {last && (
        <dl class="facts">
          <Fact name="Version">{load.serverVersion.value || 'unknown'}</Fact>
          <Fact name="Up for">{last.started ? age(last.t - last.started * 1000) : 'unknown'}</Fact>
          <Fact name="Objects">{last.objects.toLocaleString('en')}</Fact>
          {revisions && (
            <Fact name="Revisions">
              <RevisionLink revision={revisions.newest.revision} /> is the newest; history from #{revisions.compacted} on
            </Fact>
          )}
          <Fact name="Restarts of components">{last.restarts}</Fact>
        </dl>
      )}
    </Card>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Chart({ id, title, of, text }: (typeof CHARTS)[number]) {
  const points = load.loads.value.map((one) => one && { t: one.t, value: of(one) });
  const known = points.filter((point) => point !== null);
  const values = known.map(({ value }) => value);
  const span = Math.min(load.SPAN, Math.max(SHORTEST, known.length ? known[known.length - 1].t - known[0].t : 0));
  const now = points[points.length - 1];
  const most = text(Math.max(0, ...values));
  return (
    <Card id={id} title={title} note={now ? text(now.value) : '…'}>
      <svg class="chart" viewBox={`0 -2 ${WIDTH} ${HEIGHT + 4}`} preserveAspectRatio="none" role="img" aria-label={`${title} over the last ${age(span)}: now ${now ? text(now.value) : 'unknown'}, at most ${most}. The key t shows the numbers.`}>
        <path d={`M0 ${HEIGHT}H${WIDTH}`} class="base" />
        <path d={chartLine(points, span, WIDTH, HEIGHT)} class="series" />
      </svg>
      <p class="axis" aria-hidden="true">
        <span>{age(span)} ago</span>
        <span>at most {most}</span>
        <span>now</span>
      </p>
    </Card>
  );
}

/** The charts as a table, the newest reading first. */
function Readings() {
  const found = load.loads.value.filter((one) => one !== null).reverse();
  return (
    <Card id="readings" title="Readings" note={`one in ${load.INTERVAL / 1000} seconds while this view is open`}>
      {!found.length && <Empty>The second reading gives the first numbers.</Empty>}
      {found.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Time</th>
                {CHARTS.map(({ id, title }) => (
                  <th key={id} scope="col" class="number">
                    {title}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {found.map((one) => (
                <tr key={one.t}>
                  <td class="time">{second(one.t)}</td>
                  {CHARTS.map(({ id, of, text }) => (
                    <td key={id} class="number">
                      {text(of(one))}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

function Verbs() {
  const verbs = load.verbs.value;
  return (
    <Card id="verbs" title="Requests by verb" note="of the last minute">
      {!verbs.length && <Empty>There were none between two readings.</Empty>}
      {verbs.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Verb</th>
                <th scope="col" class="number">
                  Per second
                </th>
                <th scope="col" class="number" title="half of them took no longer">
                  p50
                </th>
                <th scope="col" class="number" title="99 of 100 took no longer">
                  p99
                </th>
              </tr>
            </thead>
            <tbody>
              {verbs.map(({ verb, rate, p50, p99 }) => (
                <tr key={verb}>
                  <th scope="row">{verb}</th>
                  <td class="number">{rate.toFixed(2)}</td>
                  <td class="number">{bound(p50)}</td>
                  <td class="number">{bound(p99)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}
