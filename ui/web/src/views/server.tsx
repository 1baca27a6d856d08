// The server's load over the last minutes: rates between readings of its metrics, while this view is open.

import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import * as data from '../data.ts';
import * as load from '../load.ts';
import { bound, bytes, chartLine, read, requestsUpTo, short, verbsUpTo, writeRates, type Load, type Reading, type VerbLoad } from '../metrics.ts';
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

/** Parts of the chart of writes in a report. */
const PARTS = 60;

export const Server = () => (data.isReport ? <ReportedServer /> : <RunningServer />);

function RunningServer() {
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
      <Verbs verbs={load.verbs.value} note="of the last minute" />
    </div>
  );
}

function Refused({ problem }: { problem: Error }) {
  const isForbidden = problem instanceof data.Refusal && problem.code === 403;
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
          <Size reading={last} />
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

/** The server at the end of a report: what it did since it started, and the writes of the window over time. */
function ReportedServer() {
  const found = data.reportReading();
  const about = data.aboutReport();
  const reading = found ? read(found.metrics, Date.parse(about?.time ?? '')) : null;
  const isReal = about?.clock === 'real';
  return (
    <div class="server">
      <Card id="server" title="Server" note="at the end of the report; numbers are since its start">
        {!reading && <Empty>The report has no metrics: its user may not read /metrics, which the ClusterRole system:monitoring allows.</Empty>}
        {reading && (
          <dl class="facts">
            <Fact name="Version">{found?.version ?? 'unknown'}</Fact>
            {isReal && reading.started > 0 && <Fact name="Up for">{age(reading.t - reading.started * 1000)}</Fact>}
            <Fact name="Objects">{reading.objects.toLocaleString('en')}</Fact>
            <Size reading={reading} />
            <Fact name="Requests">{requestsUpTo(reading).toLocaleString('en')}</Fact>
            <Fact name="Failures">{reading.failures.toLocaleString('en')}</Fact>
            <Fact name="Writes">{reading.writes.toLocaleString('en')}</Fact>
            <Fact name="Watch events">{reading.events.toLocaleString('en')}</Fact>
            <Fact name="Open watches">{reading.watches}</Fact>
            <Fact name="CPU time of the process">{reading.processor.toFixed(1)} s</Fact>
            <Fact name="Memory of the process">{bytes(reading.memory)}</Fact>
            <Fact name="Restarts of components">{reading.restarts}</Fact>
          </dl>
        )}
      </Card>
      <WritesOverTime />
      {reading && <Verbs verbs={verbsUpTo(reading)} note="since the start" isTotal />}
    </div>
  );
}

/** The writes of a report's window over time. */
function WritesOverTime() {
  const points = writeRates(store.model.writes.map(({ t }) => t), PARTS);
  const span = points.length ? points[points.length - 1].t - points[0].t : 0;
  const most = short(Math.max(0, ...points.map(({ value }) => value)));
  const first = store.model.writes[0]?.t ?? 0;
  const last = store.model.newest();
  return (
    <Card id="writes" title="Writes per second" note={`of ${store.model.writes.length.toLocaleString('en')} writes up to #${last}`}>
      {!points.length && <Empty>All writes are of one moment.</Empty>}
      {points.length > 0 && !store.showsTables.value && (
        <>
          <svg class="chart" viewBox={`0 -2 ${WIDTH} ${HEIGHT + 4}`} preserveAspectRatio="none" role="img" aria-label={`Writes per second from ${second(first)} to ${second(points[points.length - 1].t)}: at most ${most}. The key t shows the numbers.`}>
            <path d={`M0 ${HEIGHT}H${WIDTH}`} class="base" />
            <path d={chartLine(points, span, WIDTH, HEIGHT)} class="series" />
          </svg>
          <p class="axis" aria-hidden="true">
            <span>{second(first)}</span>
            <span>at most {most}</span>
            <span>{second(points[points.length - 1].t)}</span>
          </p>
        </>
      )}
      {points.length > 0 && store.showsTables.value && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Writes over time">
          <table id="rates">
            <thead>
              <tr>
                <th scope="col">Up to</th>
                <th scope="col" class="number">
                  Writes per second
                </th>
              </tr>
            </thead>
            <tbody>
              {points.map(({ t, value }) => (
                <tr key={t}>
                  <td class="time">{second(t)}</td>
                  <td class="number">{value.toFixed(2)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

/** How large the store is; nothing on servers whose storage is elsewhere. */
function Size({ reading }: { reading: Reading }) {
  if (!reading.storage && !reading.live) return null;
  return (
    <Fact name="Store">
      {bytes(reading.storage)}, {bytes(reading.live)} of it live
    </Fact>
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

function Verbs({ verbs, note, isTotal = false }: { verbs: VerbLoad[]; note: string; isTotal?: boolean }) {
  return (
    <Card id="verbs" title="Requests by verb" note={note}>
      {!verbs.length && <Empty>{isTotal ? 'There were none.' : 'There were none between two readings.'}</Empty>}
      {verbs.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Verb</th>
                <th scope="col" class="number">
                  {isTotal ? 'Requests' : 'Per second'}
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
              {verbs.map(({ verb, number, rate, p50, p99 }) => (
                <tr key={verb}>
                  <th scope="row">{verb}</th>
                  <td class="number">{isTotal ? number.toLocaleString('en') : rate.toFixed(2)}</td>
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
