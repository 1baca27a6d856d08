// The overview: workloads, pods by node, what waits, and warnings, at the revision of the slider.

import * as data from '../data.ts';
import { rowKey, type Row } from '../model.ts';
import * as store from '../store.ts';
import { MARKS, markTime } from '../marks.ts';
import { age, clock, count, second, STATES } from '../text.ts';
import { natural, type Workload } from '../tree.ts';
import { AboutReport } from './report.tsx';
import { Card, Empty, Mark, MarkSign, ObjectLink, RevisionLink, Writer } from './parts.tsx';

const MOST_WORKLOADS = 200;
const MOST_MARKS = 48;
/** Pods of a node that are shown one by one. */
const MOST_ON_NODE = 24;
const MOST_EVENTS = 12;
const MOST_PENDING = 30;
const MOST_MARKS_LISTED = 200;

export function Overview() {
  const tree = store.tree.value;
  const namespace = store.route.value.namespace;
  const workloads = tree.workloads(namespace);
  const rows = [...tree.rows.values()].filter((row) => !namespace || row.n === namespace || row.k === 'nodes');
  const waiting = rows.filter((row) => row.s === 'pending' || row.s === 'failed' || (row.s === 'unready' && row.k !== 'events')).sort((a, b) => natural(a.m, b.m));
  return (
    <div class="overview">
      <AboutReport />
      <Marks />
      <Workloads workloads={workloads} />
      <div class="pair">
        <Nodes pods={tree.podsByNode(namespace)} />
        <Waiting rows={waiting} />
      </div>
      <Events rows={rows.filter((row) => row.k === 'events')} />
    </div>
  );
}

/** What a plan did, parts of a test, and tags; nothing where there are none. */
function Marks() {
  const marks = store.marks.value;
  if (!marks.length) return null;
  return (
    <Card id="marks" title="Marks" note={marks.length > MOST_MARKS_LISTED ? `${MOST_MARKS_LISTED} of ${marks.length}` : String(marks.length)}>
      <div class="scroll list" tabIndex={0} role="region" aria-label="Marks in their order">
        <table>
          <thead>
            <tr>
              <th scope="col">After</th>
              <th scope="col">Time</th>
              <th scope="col">Kind</th>
              <th scope="col">What</th>
            </tr>
          </thead>
          <tbody>
            {marks.slice(0, MOST_MARKS_LISTED).map((mark, at) => {
              const time = markTime(mark, store.model);
              return (
                <tr key={at} class={mark.r > store.revision.value ? 'future' : ''}>
                  <td>
                    <RevisionLink revision={mark.r} />
                  </td>
                  <td class="time">{time === null ? '' : clock(time)}</td>
                  <td>
                    <span class={`mark-${mark.kind}`}>
                      <MarkSign kind={mark.kind} /> {MARKS[mark.kind]}
                    </span>
                  </td>
                  <td class="wide">
                    <bdi>{mark.text}</bdi>
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

function Workloads({ workloads }: { workloads: Workload[] }) {
  const shown = workloads.slice(0, MOST_WORKLOADS);
  return (
    <Card id="workloads" title="Workloads" note={workloads.length > shown.length ? `${shown.length} of ${workloads.length}` : workloads.length ? String(workloads.length) : undefined}>
      {!workloads.length && (
        <Empty>
          Nothing runs at this revision. Create something, and it appears here: <code>kubectl create deployment web --image=nginx --replicas=3</code>
        </Empty>
      )}
      {!!workloads.length && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>Name</th>
                <th>State</th>
                <th class="number">Ready</th>
                <th>Pods</th>
                <th class="image">Image</th>
                <th>Last change from outside</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((workload) => (
                <WorkloadRow key={rowKey(workload.row)} workload={workload} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

function WorkloadRow({ workload: { row, pods } }: { workload: Workload }) {
  const last = store.model.lastWrite(rowKey(row), (write) => write.outside);
  const images = [...new Set(row.i ?? pods[0]?.i ?? [])];
  const isPod = row.k === 'pods';
  return (
    <tr>
      <td>
        <ObjectLink row={row} hasKind />
        {row.n && !store.route.value.namespace && <span class="ns"> {row.n}</span>}
      </td>
      <td>
        <span class="state">
          <Mark state={row.s} /> {STATES[row.s ?? '']}
        </span>
      </td>
      <td class="number">{row.r ?? ''}</td>
      <td>{!isPod && <Pods pods={pods} />}</td>
      <td class="image">
        <bdi>{images.join(', ')}</bdi>
      </td>
      <td class="change">
        {last ? (
          <>
            <RevisionLink revision={last.r} /> <span class="time">{second(last.t)}</span> <Writer write={last} />
          </>
        ) : (
          <span class="faint">before the window</span>
        )}
      </td>
    </tr>
  );
}

/** Pods as one mark each; beyond a number, as counts. */
function Pods({ pods, most = MOST_MARKS }: { pods: Row[]; most?: number }) {
  if (pods.length <= most) {
    return (
      <span class="pods">
        {pods.map((pod) => (
          <a key={pod.u ?? pod.m} href={store.address({ view: 'object', subject: rowKey(pod) })} title={`${pod.m}: ${STATES[pod.s ?? '']}${pod.t ? `, ${pod.t}` : ''}`} aria-label={`pod ${pod.m}, ${STATES[pod.s ?? '']}`}>
            <Mark state={pod.s} />
          </a>
        ))}
      </span>
    );
  }
  return (
    <span class="counts">
      {byState(pods).map(([state, number]) => (
        <span class="state" key={state}>
          <Mark state={state} /> {number}
        </span>
      ))}
    </span>
  );
}

function byState(pods: Row[]): [NonNullable<Row['s']>, number][] {
  const found = new Map<NonNullable<Row['s']>, number>();
  for (const pod of pods) found.set(pod.s ?? '', (found.get(pod.s ?? '') ?? 0) + 1);
  return [...found.entries()].sort((a, b) => b[1] - a[1]);
}

function Nodes({ pods }: { pods: Map<string, Row[]> }) {
  const names = [...pods.keys()].filter((name) => name !== '');
  return (
    <Card id="nodes" title="Pods by node" note={names.length ? count(names.length, 'node') : undefined}>
      {!names.length && <Empty>There are no nodes at this revision.</Empty>}
      <ul class="nodes">
        {names.slice(0, 200).map((name) => (
          <Node key={name} name={name} pods={pods.get(name)!} />
        ))}
        {pods.has('') && (
          <li>
            <span class="name faint">no node</span>
            <span class="use" />
            <Pods pods={pods.get('')!} most={MOST_ON_NODE} />
          </li>
        )}
      </ul>
      {names.length > 200 && <p class="note">The first 200 nodes are shown.</p>}
    </Card>
  );
}

function Node({ name, pods }: { name: string; pods: Row[] }) {
  const row = store.tree.value.rows.get(`nodes//${name}`);
  const [cpu, memory] = [0, 1].map((at) => {
    const all = row?.q?.[at] ?? 0;
    const used = pods.reduce((sum, pod) => sum + (pod.q?.[at] ?? 0), 0);
    return all ? used / all : 0;
  });
  return (
    <li>
      {row ? (
        <span class="state">
          <Mark state={row.s} />
          <ObjectLink row={row} />
        </span>
      ) : (
        <span class="name faint">
          <bdi>{name}</bdi> (gone)
        </span>
      )}
      <span class="use">
        <Use name="cpu" part={cpu} />
        <Use name="mem" part={memory} />
      </span>
      {pods.length ? <Pods pods={pods} most={MOST_ON_NODE} /> : <span class="faint">no pods</span>}
    </li>
  );
}

/** How much of a node pods request. */
function Use({ name, part }: { name: string; part: number }) {
  const percent = Math.round(part * 100);
  return (
    <span class={percent > 90 ? 'bar full' : 'bar'} title={`${percent} % of ${name} requested`}>
      <span class="label">{name}</span>
      <progress max={100} value={Math.min(100, percent)} aria-label={`${name} requested`} />
      <span class="percent">{percent} %</span>
    </span>
  );
}

function Waiting({ rows }: { rows: Row[] }) {
  return (
    <Card id="waiting" title="Needs attention" note={rows.length ? String(rows.length) : undefined}>
      {!rows.length && <Empty>Nothing waits, and nothing failed.</Empty>}
      <ul class="waiting">
        {rows.slice(0, MOST_PENDING).map((row) => (
          <li key={rowKey(row)}>
            <Mark state={row.s} />
            <span>
              <ObjectLink row={row} hasKind hasNamespace={!store.route.value.namespace} />
              <span class="why">
                {STATES[row.s ?? '']}
                {row.t ? `: ${row.t}` : ''}{' '}
                {row.k === 'pods' && !row.d && row.s === 'pending' && (
                  <a class="underlined" href={store.address({ view: 'scheduling', subject: rowKey(row) })} aria-label={`What would help pod ${row.m}`}>
                    what would help
                  </a>
                )}
              </span>
            </span>
          </li>
        ))}
      </ul>
      {rows.length > MOST_PENDING && <p class="note">and {rows.length - MOST_PENDING} more</p>}
    </Card>
  );
}

/** The newest events up to the revision, by the writes that made them. */
function Events({ rows }: { rows: Row[] }) {
  const latest = rows
    .map((row) => ({ row, write: store.model.lastWrite(rowKey(row)) }))
    .sort((a, b) => Number(b.row.s === 'warning') - Number(a.row.s === 'warning') || (b.write?.r ?? 0) - (a.write?.r ?? 0))
    .slice(0, MOST_EVENTS);
  const warnings = rows.filter((row) => row.s === 'warning').length;
  return (
    <Card id="events" title="Events" note={rows.length ? `${count(warnings, 'warning')} · ${rows.length} in all` : undefined}>
      {!rows.length && <Empty>No events at this revision.</Empty>}
      <ul class="events">
        {latest.map(({ row, write }) => {
          const about = store.tree.value.get(row.o);
          return (
            <li key={rowKey(row)}>
              <span class="time">{write ? second(write.t) : row.c ? second(Date.parse(row.c)) : ''}</span>
              <Mark state={row.s} />
              <span>
                {about ? <ObjectLink row={about} hasKind /> : <span class="faint">{row.m.split('.')[0]}</span>} <span class="why">{row.t}</span>
                {(row.x ?? 0) > 1 && <span class="faint"> ×{row.x}</span>}
              </span>
            </li>
          );
        })}
      </ul>
    </Card>
  );
}

/** The age of a row at the cursor. */
export function ageOf(row: Row): string {
  if (!row.c) return '';
  const isNow = store.isLive.value && !data.isReport;
  const then = isNow ? Math.max(Date.now(), store.model.current()?.t ?? 0) : store.model.current()?.t ?? Date.now();
  return age((store.about.value?.clock === 'virtual' ? store.model.current()?.t ?? then : then) - Date.parse(row.c));
}
