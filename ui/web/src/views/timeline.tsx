// The timeline: a lane for each object with its life and its writes, and what led from one write to the next.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { arrows, isQuiet, kindName, lanes, type Grouping, type Lane } from '../lanes.ts';
import { rowKey, type Row, type Write } from '../model.ts';
import { factsOf, isEmpty, matches, parseQuery } from '../search.ts';
import * as store from '../store.ts';
import { clock, count, second, STATES } from '../text.ts';
import { MARKS, markPosition, marksNear, markTime, type Mark, type MarkKind } from '../marks.ts';
import { fit, hatch, markColor, markSign, palette, useSize, type Palette } from './canvas.ts';
import { Causes, Changes } from './object.tsx';
import { Card, Empty, KeyLink, MarkSign, RevisionLink, Writer } from './parts.tsx';

const LANE = 24;
const AXIS = 26;
const LABELS = 250;
const MOST_ROWS = 300;
/** Pixels around a mark in which its text is shown, and texts at a time. */
const MARK = 6;
const MOST_HIT = 4;

interface Range {
  from: number;
  to: number;
}

export function Timeline() {
  const [grouping, setGrouping] = useState<Grouping>('owner');
  const { namespace, search, write: selected } = store.route.value;
  const query = parseQuery(search);
  void store.version.value;
  const all = useMemo(
    () => lanes(store.model, grouping, (row: Row) => (!namespace || row.n === namespace || row.k === 'nodes') && (isEmpty(query) ? !isQuiet(row.k) && isOfInterest(row) : matches(row, query, factsOf(store.model, row)))),
    [store.model.writes.length, grouping, namespace, search, store.model, query.members.some(([member]) => member === 'deleted') && store.model.at],
  );
  const chosen = selected === null ? null : store.model.find(selected);
  return (
    <div class={chosen ? 'timeline with-panel' : 'timeline'}>
      <Card
        id="lanes"
        title="Timeline"
        note={
          <span class="choices">
            <label>
              lanes by{' '}
              <select value={grouping} onChange={(event) => setGrouping(event.currentTarget.value as Grouping)}>
                <option value="owner">owner</option>
                <option value="kind">kind</option>
                <option value="node">node</option>
              </select>
            </label>{' '}
            {count(all.length, 'object')}
          </span>
        }
      >
        {query.notes.map((note) => (
          <p class="note" key={note}>
            <bdi>{note}</bdi>
          </p>
        ))}
        {!all.length && <Empty>Nothing was written in this window that these lanes show.</Empty>}
        {!!all.length && !store.showsTables.value && <Lanes all={all} selected={selected} />}
        {!!all.length && store.showsTables.value && <WriteTable all={all} />}
      </Card>
      {chosen && <Panel write={chosen} />}
    </div>
  );
}

/** The first revision from outside. */
const firstOutside = (): number => store.model.writes.find((write) => write.outside)?.r ?? 0;

/** Objects that the program itself made at its start are left out unless something was written to them later. */
function isOfInterest(row: Row): boolean {
  if (row.k === 'nodes' || row.k === 'pods' || row.o) return true;
  return (store.model.byKey.get(rowKey(row)) ?? []).some((index) => store.model.writes[index].outside);
}

function Lanes({ all, selected }: { all: Lane[]; selected: number | null }) {
  const place = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, height] = useSize(place);
  const [top, setTop] = useState(0);
  const [range, setRange] = useState<Range | null>(null);
  const [hover, setHover] = useState<{ x: number; y: number } | null>(null);
  const dragged = useRef<{ x: number; range: Range; moved: boolean } | null>(null);
  const length = store.scale.length();
  // What the program itself wrote at its start is left of the first range.
  const whole = { from: Math.max(0, store.scale.of(store.model.countUpTo(firstOutside())) - length / 40), to: length };
  const shown = range ?? whole;
  const labels = Math.min(LABELS, Math.round(width * 0.34));
  const view: Drawing = { all, shown, width, height, top, labels, selected, at: store.model.at };
  useEffect(() => {
    const context = fit(canvas.current, width, height);
    if (context) draw(context, palette(canvas.current!), view);
  }, [all, width, height, top, shown.from, shown.to, selected, store.version.value, store.theme.value, store.marks.value]);
  const positionAt = (x: number) => shown.from + ((x - labels) / Math.max(1, width - labels)) * (shown.to - shown.from);
  const zoom = (factor: number, around = (shown.from + shown.to) / 2) => {
    const wide = Math.min(length, Math.max(200, (shown.to - shown.from) * factor));
    const from = Math.max(0, Math.min(length - wide, around - (around - shown.from) * (wide / (shown.to - shown.from))));
    setRange({ from, to: from + wide });
  };
  const spot = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const laneAt = (y: number): Lane | undefined => (y < AXIS ? undefined : all[Math.floor((y - AXIS + top) / LANE)]);
  const click = (event: MouseEvent) => {
    if (dragged.current?.moved) return;
    const { x, y } = spot(event);
    const lane = laneAt(y);
    if (x < labels) {
      if (lane) store.go({ view: 'object', subject: lane.key, write: null });
      return;
    }
    const mark = lane && nearest(lane, view, x);
    if (mark !== undefined && mark !== null) store.go({ write: store.model.writes[mark].r });
    else store.moveTo(store.scale.countAt(positionAt(x)));
  };
  const wheel = (event: WheelEvent) => {
    const { x } = spot(event);
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, positionAt(x));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan(((event.deltaX || event.deltaY) / Math.max(1, width)) * (shown.to - shown.from));
    }
  };
  const pan = (by: number, of: Range = shown) => {
    const wide = of.to - of.from;
    if (wide >= length) return;
    const from = Math.max(0, Math.min(length - wide, of.from + by));
    setRange({ from, to: from + wide });
  };
  const move = (event: PointerEvent) => {
    const at = spot(event);
    if (event.buttons & 1 && dragged.current) {
      const by = at.x - dragged.current.x;
      if (Math.abs(by) > 3) dragged.current.moved = true;
      if (dragged.current.moved) pan((-by / Math.max(1, width - labels)) * (shown.to - shown.from), dragged.current.range);
    }
    setHover(at);
  };
  const lane = hover ? laneAt(hover.y) : undefined;
  const mark = hover && lane && hover.x > labels ? nearest(lane, view, hover.x) : null;
  const onAxis = hover && hover.y < AXIS && hover.x > labels ? marksNear(store.marks.value, positionAt(hover.x), positionAt(labels + MARK) - positionAt(labels), store.model, store.scale) : [];
  return (
    <>
      <div class="zoom" role="group" aria-label="Zoom">
        <button type="button" class="small" onClick={() => zoom(0.6)} title="Zoom in (Ctrl and wheel)">
          +
        </button>
        <button type="button" class="small" onClick={() => zoom(1.6)} title="Zoom out">
          −
        </button>
        <button type="button" class="small" onClick={() => setRange(null)} disabled={!range}>
          fit
        </button>
        <Legend />
      </div>
      <div class="lanes" ref={place} onScroll={(event) => setTop(event.currentTarget.scrollTop)} tabIndex={0} role="img" aria-label={`Timeline of ${all.length} objects. Press t for a table.`}>
        <div class="sticky">
          <canvas
            ref={canvas}
            onClick={click}
            onWheel={wheel}
            onPointerDown={(event) => (dragged.current = { x: spot(event).x, range: shown, moved: false })}
            onPointerMove={move}
            onPointerLeave={() => setHover(null)}
          />
        </div>
        <div style={{ height: `${Math.max(0, AXIS + all.length * LANE - height)}px` }} />
        {hover && onAxis.length > 0 && (
          <div class="tip" style={{ left: `${Math.min(hover.x + 12, Math.max(0, width - 320))}px`, top: `${hover.y + top + 16}px` }}>
            {onAxis.slice(0, MOST_HIT).map((found, nth) => (
              <div key={nth} class="mark-text">
                {MARKS[found.kind]}, after #{found.r}: <bdi>{found.text}</bdi>
              </div>
            ))}
          </div>
        )}
        {hover && lane && (
          <div class="tip" style={{ left: `${Math.min(hover.x + 12, Math.max(0, width - 320))}px`, top: `${hover.y + top + 16}px` }}>
            {mark !== null ? <MarkTip index={mark} /> : <LaneTip lane={lane} count={hover.x > labels ? store.scale.countAt(positionAt(hover.x)) : Number.NaN} />}
          </div>
        )}
      </div>
    </>
  );
}

function MarkTip({ index }: { index: number }) {
  const write = store.model.writes[index];
  return (
    <>
      #{write.r} · {clock(write.t)} · <Writer write={write} /> {write.verb}
    </>
  );
}

function LaneTip({ lane, count: at }: { lane: Lane; count: number }) {
  const life = lane.lives.find((own) => own.from <= at && at < own.to);
  return (
    <>
      {kindName(lane.row.k)} {lane.row.n ? `${lane.row.n}/` : ''}
      {lane.row.m}
      {life && ` · ${STATES[life.state]}`}
    </>
  );
}

const KINDS = Object.keys(MARKS) as MarkKind[];

function Legend() {
  return (
    <span class="legend" aria-hidden="true">
      <span class="diamond" /> change from outside <span class="tick" /> write of a component{' '}
      {KINDS.filter((kind) => store.marks.value.some((mark) => mark.kind === kind)).map((kind) => (
        <span key={kind}>
          <MarkSign kind={kind} /> {MARKS[kind]}{' '}
        </span>
      ))}
    </span>
  );
}

interface Drawing {
  all: Lane[];
  shown: Range;
  width: number;
  height: number;
  top: number;
  labels: number;
  selected: number | null;
  at: number;
}

const xOf = (view: Drawing, position: number): number => view.labels + ((position - view.shown.from) / (view.shown.to - view.shown.from)) * (view.width - view.labels);

/** The write of a lane that is nearest to a point, within a few pixels. */
function nearest(lane: Lane, view: Drawing, x: number): number | null {
  let best: number | null = null;
  let distance = 7;
  for (const index of lane.marks) {
    const away = Math.abs(xOf(view, store.scale.of(index + 1)) - x);
    const isBetter = away < distance || (away === distance && store.model.writes[index].outside);
    if (isBetter) {
      best = index;
      distance = away;
    }
  }
  return best;
}

function draw(context: CanvasRenderingContext2D, colors: Palette, view: Drawing): void {
  const { all, width, height, top, labels } = view;
  context.clearRect(0, 0, width, height);
  context.font = `12px ${colors.font}`;
  context.textBaseline = 'middle';
  const first = Math.max(0, Math.floor(top / LANE));
  const last = Math.min(all.length, Math.ceil((top + height) / LANE));
  context.save();
  context.beginPath();
  context.rect(0, AXIS, width, height - AXIS);
  context.clip();
  for (let at = first; at < last; at++) {
    const y = AXIS + at * LANE - top;
    if (at % 2) {
      context.fillStyle = colors.stripe;
      context.fillRect(0, y, width, LANE);
    }
    drawLabel(context, colors, all[at], y, labels);
  }
  context.beginPath();
  context.rect(labels, AXIS, width - labels, height - AXIS);
  context.clip();
  for (const gap of store.model.gaps) hatch(context, xOf(view, store.scale.of(gap.from)), xOf(view, store.scale.of(gap.to)), height, colors.faint);
  drawFolds(context, colors, view);
  for (let at = first; at < last; at++) drawLane(context, colors, all[at], AXIS + at * LANE - top, view);
  // What is behind the cursor has not happened yet.
  const head = xOf(view, store.scale.of(view.at));
  context.globalAlpha = 0.6;
  context.fillStyle = colors.surface;
  if (head < width) context.fillRect(Math.max(labels, head + 1), AXIS, width, height);
  context.globalAlpha = 1;
  drawArrows(context, colors, view);
  for (const mark of store.marks.value) {
    const x = xOf(view, markPosition(mark, store.model, store.scale));
    context.fillStyle = markColor(colors, mark.kind);
    if (x >= labels && x <= width) context.fillRect(x - 0.5, AXIS, 1, height);
  }
  context.restore();
  drawAxis(context, colors, view);
  for (const mark of store.marks.value) {
    const x = xOf(view, markPosition(mark, store.model, store.scale));
    if (x < labels || x > width) continue;
    context.fillStyle = context.strokeStyle = markColor(colors, mark.kind);
    context.fillRect(x - 0.5, AXIS - 12, 1, 12);
    markSign(context, mark.kind, x, AXIS - 8);
  }
  if (head >= labels - 1 && head <= width) {
    context.fillStyle = colors.head;
    context.fillRect(head - 1, AXIS - 6, 2, height);
    context.beginPath();
    context.moveTo(head - 5, AXIS - 8);
    context.lineTo(head + 5, AXIS - 8);
    context.lineTo(head, AXIS - 1);
    context.fill();
  }
}

function drawLabel(context: CanvasRenderingContext2D, colors: Palette, lane: Lane, y: number, labels: number): void {
  const x = 8 + lane.depth * 14;
  const kind = kindName(lane.row.k);
  context.fillStyle = colors.faint;
  context.fillText(kind, x, y + LANE / 2);
  const from = x + context.measureText(`${kind} `).width;
  context.fillStyle = colors.text;
  const room = labels - from - 8;
  let name = lane.row.m;
  if (context.measureText(name).width > room) {
    const wide = context.measureText('0').width;
    const fits = Math.max(4, Math.floor(room / wide));
    const tail = Math.floor(fits / 2);
    name = `${name.slice(0, fits - tail - 1)}…${name.slice(name.length - tail)}`;
  }
  context.fillText(name, from, y + LANE / 2, Math.max(10, room));
}

function drawFolds(context: CanvasRenderingContext2D, colors: Palette, view: Drawing): void {
  context.strokeStyle = colors.line;
  context.setLineDash([2, 4]);
  for (const fold of store.scale.folds) {
    const x = xOf(view, store.scale.of(fold)) - 10;
    if (x < view.labels || x > view.width) continue;
    context.beginPath();
    context.moveTo(x, AXIS);
    context.lineTo(x, view.height);
    context.stroke();
  }
  context.setLineDash([]);
}

function drawLane(context: CanvasRenderingContext2D, colors: Palette, lane: Lane, y: number, view: Drawing): void {
  const middle = y + LANE / 2;
  for (const life of lane.lives) {
    const from = Math.max(view.labels, xOf(view, store.scale.of(life.from)));
    const to = life.to === Number.POSITIVE_INFINITY ? view.width : xOf(view, store.scale.of(life.to));
    if (to < view.labels || from > view.width) continue;
    drawLife(context, colors, life.state, from, Math.max(2, to - from), middle);
  }
  let before = Number.NEGATIVE_INFINITY;
  for (const index of lane.marks) {
    const write = store.model.writes[index];
    const x = xOf(view, store.scale.of(index + 1));
    if (x < view.labels - 6 || x > view.width + 6) continue;
    const isSelected = write.r === view.selected;
    if (x - before < 1.5 && !write.outside && !isSelected) continue;
    before = x;
    if (write.outside || isSelected) {
      context.fillStyle = isSelected ? colors.head : colors.accent;
      context.beginPath();
      context.moveTo(x, middle - 7);
      context.lineTo(x + 6, middle);
      context.lineTo(x, middle + 7);
      context.lineTo(x - 6, middle);
      context.fill();
      context.strokeStyle = colors.surface;
      context.stroke();
    } else {
      context.fillStyle = colors.text;
      context.fillRect(x - 0.5, middle - 6, 1, 12);
    }
  }
}

/** A stretch of a life. States differ by form: full, hollow, half as high, dashed. */
function drawLife(context: CanvasRenderingContext2D, colors: Palette, state: string, x: number, width: number, middle: number): void {
  const color = colors[`s-${state || 'plain'}`];
  context.fillStyle = color;
  context.strokeStyle = color;
  const half = state === 'plain' || state === '' || state === 'done' || state === 'idle' ? 2 : 5;
  if (state === 'pending' || state === 'progress') {
    context.globalAlpha = state === 'progress' ? 0.3 : 0.12;
    context.fillRect(x, middle - half, width, half * 2);
    context.globalAlpha = 1;
    context.strokeRect(x + 0.5, middle - half + 0.5, Math.max(1, width - 1), half * 2 - 1);
  } else if (state === 'ending') {
    for (let at = 0; at < width; at += 5) context.fillRect(x + at, middle - half, Math.min(3, width - at), half * 2);
  } else {
    context.fillRect(x, middle - half, width, half * 2);
    if (state === 'failed' || state === 'unready') {
      context.fillStyle = colors.surface;
      for (let at = 3; at < width - 2; at += 8) context.fillRect(x + at, middle - 1, 4, 2);
    }
  }
}

function drawArrows(context: CanvasRenderingContext2D, colors: Palette, view: Drawing): void {
  if (view.selected === null) return;
  const places = new Map(view.all.map((lane, at) => [lane.key, AXIS + at * LANE - view.top + LANE / 2]));
  context.strokeStyle = colors.head;
  context.fillStyle = colors.head;
  context.lineWidth = 1.25;
  for (const { from, to, fromRevision, toRevision } of arrows(store.model, view.selected)) {
    const [y1, y2] = [places.get(from), places.get(to)];
    if (y1 === undefined || y2 === undefined) continue;
    const x1 = xOf(view, store.scale.of(store.model.countUpTo(fromRevision)));
    const x2 = xOf(view, store.scale.of(store.model.countUpTo(toRevision)));
    const bend = Math.max(12, (x2 - x1) / 2);
    context.beginPath();
    context.moveTo(x1, y1);
    context.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2 - 4, y2);
    context.stroke();
    context.beginPath();
    context.moveTo(x2, y2);
    context.lineTo(x2 - 7, y2 - 4);
    context.lineTo(x2 - 7, y2 + 4);
    context.fill();
  }
  context.lineWidth = 1;
}

function drawAxis(context: CanvasRenderingContext2D, colors: Palette, view: Drawing): void {
  const { width, labels } = view;
  context.fillStyle = colors.surface;
  context.fillRect(0, 0, width, AXIS);
  context.fillStyle = colors.line;
  context.fillRect(0, AXIS - 1, width, 1);
  context.fillRect(labels, 0, 1, view.height);
  context.fillStyle = colors.faint;
  const step = 96;
  let before = '';
  for (let x = labels + 4; x < width - 60; x += step) {
    const position = view.shown.from + ((x - labels) / (width - labels)) * (view.shown.to - view.shown.from);
    const write = store.model.writes[store.scale.countAt(position)] ?? store.model.writes[store.model.writes.length - 1];
    if (!write) continue;
    const text = view.shown.to - view.shown.from < 8_000 ? clock(write.t) : second(write.t);
    if (text !== before) context.fillText(text, x, AXIS / 2 - 2);
    before = text;
  }
}

function Panel({ write }: { write: Write }) {
  const touch = write.touches[0];
  const marks = store.model.byKey.get(touch?.key ?? '') ?? [];
  const index = store.model.countUpTo(write.r) - 1;
  const before = marks[marks.indexOf(index) - 1];
  const effects = store.model.effects.get(write.r) ?? [];
  const consequences = store.model.consequences(write.r);
  return (
    <Card
      id="selected"
      title={`Write #${write.r}`}
      note={
        <button type="button" class="small" onClick={() => store.go({ write: null })} aria-label="Close (Esc)">
          ×
        </button>
      }
    >
      <div class="panel">
        <p>
          <Writer write={write} />
          <br />
          <span class="verb">{write.verb}</span> {touch && <KeyLink objectKey={touch.key} hasNamespace />}
          {write.touches.length > 1 && <span class="faint"> and {write.touches.length - 1} more objects</span>}
        </p>
        <dl class="facts">
          <dt>Time</dt>
          <dd>{clock(write.t)}</dd>
          <dt>User</dt>
          <dd>
            <bdi>{write.user || 'unknown'}</bdi>
          </dd>
          <dt>Program</dt>
          <dd>
            <bdi>{write.agent || 'unknown'}</bdi>
          </dd>
          <dt>Cause</dt>
          <dd>{write.causes.length ? <Causes causes={write.causes} /> : write.outside ? 'none: it came from outside' : 'none named'}</dd>
        </dl>
        {touch && (
          <>
            <h3>What changed</h3>
            {touch.effect === 'updated' ? <Changes write={write} objectKey={touch.key} before={before} opens /> : <p class="faint">the object was {touch.effect}</p>}
          </>
        )}
        <h3>{consequences ? `Led to ${count(consequences, 'write')}` : 'Led to nothing else'}</h3>
        <ul class="effects">
          {effects.slice(0, 30).map((effect) => {
            const after = store.model.writes[effect];
            return (
              <li key={after.r}>
                <a class="rev" href={store.address({ write: after.r })}>
                  #{after.r}
                </a>{' '}
                <Writer write={after} /> <span class="verb">{after.verb}</span> {after.touches[0] && <KeyLink objectKey={after.touches[0].key} />}
              </li>
            );
          })}
        </ul>
        {effects.length > 30 && <p class="note">and {effects.length - 30} more</p>}
        <p class="buttons">
          <button type="button" onClick={() => store.moveTo(store.model.countUpTo(write.r))}>
            go to #{write.r}
          </button>{' '}
          <button type="button" onClick={() => store.moveTo(store.model.countUpTo(write.r) - 1)}>
            and just before
          </button>
        </p>
      </div>
    </Card>
  );
}

/** The writes as a table: what a screen reader gets, and the key t. */
function WriteTable({ all }: { all: Lane[] }) {
  const keys = new Set(all.map((lane) => lane.key));
  const { model } = store;
  const found: Write[] = [];
  for (let at = model.at - 1; at >= 0 && found.length < MOST_ROWS; at--) {
    if (model.writes[at].touches.some((touch) => keys.has(touch.key))) found.push(model.writes[at]);
  }
  const oldest = found.length === MOST_ROWS ? found[found.length - 1].r : 0;
  const marks = store.marks.value.filter((mark) => mark.r <= model.revision() && mark.r >= oldest);
  const rows: (Write | Mark)[] = [...found, ...marks].sort((a, b) => b.r - a.r || ('text' in b ? 1 : 0) - ('text' in a ? 1 : 0));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Writes">
      <table class="writes">
        <caption class="hidden">The newest writes up to the revision of the slider</caption>
        <thead>
          <tr>
            <th>Revision</th>
            <th>Time</th>
            <th>Writer</th>
            <th>Verb</th>
            <th>Object</th>
            <th>State after it</th>
            <th>Because of</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((write, nth) =>
            'text' in write ? (
              <tr key={`mark ${nth}`}>
                <td>
                  <RevisionLink revision={write.r} />
                </td>
                <td class="time">{clock(markTime(write, model) ?? 0)}</td>
                <td>{MARKS[write.kind]}</td>
                <td colSpan={4}>
                  <bdi>{write.text}</bdi>
                </td>
              </tr>
            ) : (
            <tr key={write.r}>
              <td>
                <RevisionLink revision={write.r} />
              </td>
              <td class="time">{clock(write.t)}</td>
              <td>
                <Writer write={write} />
              </td>
              <td>{write.verb}</td>
              <td>{write.touches[0] && <KeyLink objectKey={write.touches[0].key} />}</td>
              <td>{write.touches[0]?.after ? STATES[write.touches[0].after.s ?? ''] : 'deleted'}</td>
              <td>{write.causes.length ? <Causes causes={write.causes} lead="" /> : ''}</td>
            </tr>
            ),
          )}
        </tbody>
      </table>
    </div>
  );
}
