// The slider: writes over time, and the revision that all views show.

import { useEffect, useRef, useState } from 'preact/hooks';
import * as data from '../data.ts';
import * as store from '../store.ts';
import { bins } from '../scale.ts';
import { writerOf } from '../model.ts';
import { shortName } from '../lanes.ts';
import { clock, count, dateTime } from '../text.ts';
import { MARKS, markPosition, marksNear } from '../marks.ts';
import { fit, hatch, markColor, markSign, palette, useSize } from './canvas.ts';
import { KeyLink, Writer } from './parts.tsx';

const BAR = 4;
/** Pixels around a mark in which its text is shown, and texts at a time. */
const MARK = 6;
const MOST_HIT = 4;

export function Slider() {
  void store.version.value;
  const { model, scale } = store;
  const write = model.current();
  const touch = write?.touches[0];
  return (
    <footer class="slider">
      <Track />
      <div class="controls">
        <span class="buttons" role="group" aria-label="Move through the revisions">
          <Button label="To the oldest revision (Home)" onClick={() => store.moveTo(0)} path="M2 2h1.7v8H2zM10 2 4.8 6 10 10z" />
          <Button label="To the previous change from outside (Shift ←)" onClick={() => store.moveTo(model.nextOutside(-1))} path="M6.5 2 2.5 6l4 4zM11 2 7 6l4 4z" />
          <Button label="One revision back (←)" onClick={() => store.moveTo(model.at - 1)} path="M8.5 2 3.5 6l5 4z" />
          <Button label={store.isPlaying.value ? 'Pause (Space)' : 'Play (Space)'} onClick={() => (store.isPlaying.value = !store.isPlaying.value)} path={store.isPlaying.value ? 'M3 2h2.2v8H3zM7 2h2.2v8H7z' : 'M3 1.5 10 6l-7 4.5z'} />
          <Button label="One revision on (→)" onClick={() => store.moveTo(model.at + 1)} path="M3.5 2 8.5 6l-5 4z" />
          <Button label="To the next change from outside (Shift →)" onClick={() => store.moveTo(model.nextOutside(1))} path="M1 2 5 6l-4 4zM5.5 2l4 4-4 4z" />
        </span>
        <span class="where">
          <strong class="rev">#{model.revision()}</strong>
          {write ? (
            <>
              <time title={dateTime(write.t)}>{clock(write.t)}</time>
              <span class="what">
                <Writer write={write} /> <span class="verb">{write.verb || touch?.effect}</span> {touch && <KeyLink objectKey={touch.key} hasNamespace />}
                {write.touches.length > 1 && <span class="faint"> and {write.touches.length - 1} more</span>}
              </span>
            </>
          ) : (
            <span class="faint">the beginning of this window: {scale.positions.length ? 'what was written before is not listed' : 'nothing was written since'}</span>
          )}
        </span>
        <LiveButton />
      </div>
    </footer>
  );
}

function LiveButton() {
  if (data.isReport) {
    return (
      <button type="button" class="live past" onClick={store.now} disabled={store.isLive.value} title="To the newest revision of the report (End)">
        {store.isLive.value ? 'end of the report' : 'to the end of the report'}
      </button>
    );
  }
  if (store.isLive.value) {
    return (
      <span class={store.isConnected.value ? 'live on' : 'live off'} role="status">
        <span class="dot" aria-hidden="true" /> {store.isConnected.value ? 'live' : 'reconnecting'}
      </span>
    );
  }
  return (
    <button type="button" class="live past" onClick={store.now} title="Follow new revisions (End)">
      {store.behind.value ? `${count(store.behind.value, 'revision')} behind · ` : ''}go to now
    </button>
  );
}

function Button({ label, path, onClick }: { label: string; path: string; onClick: () => void }) {
  return (
    <button type="button" class="icon" aria-label={label} title={label} onClick={onClick}>
      <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
        <path d={path} />
      </svg>
    </button>
  );
}

function Track() {
  const place = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, height] = useSize(place);
  const [hover, setHover] = useState<number | null>(null);
  const { model, scale } = store;
  const at = model.at;
  const length = scale.length();
  const dark = store.theme.value;
  const marks = store.marks.value;
  useEffect(() => {
    const context = fit(canvas.current, width, height);
    if (!context) return;
    const colors = palette(canvas.current!);
    const number = Math.max(1, Math.floor(width / BAR));
    const found = bins(scale, (index) => model.writes[index].outside, 0, length, number);
    const most = Math.max(1, ...found.all);
    context.clearRect(0, 0, width, height);
    const head = (scale.of(at) / length) * width;
    context.fillStyle = colors.track;
    context.fillRect(0, height - 2, width, 2);
    for (const gap of model.gaps) hatch(context, (scale.of(gap.from) / length) * width, (scale.of(gap.to) / length) * width, height, colors.faint);
    for (let bin = 0; bin < number; bin++) {
      if (!found.all[bin]) continue;
      const x = bin * BAR;
      const isPast = x <= head + 1;
      const tall = 3 + (Math.log1p(found.all[bin]) / Math.log1p(most)) * (height - 12);
      context.globalAlpha = isPast ? 1 : 0.35;
      context.fillStyle = found.outside[bin] ? colors.accent : colors.bar;
      context.fillRect(x, height - 2 - tall, BAR - 1, tall);
      if (found.outside[bin]) {
        context.beginPath();
        context.moveTo(x + 1.5, height - tall - 9);
        context.lineTo(x + 4.5, height - tall - 6);
        context.lineTo(x + 1.5, height - tall - 3);
        context.lineTo(x - 1.5, height - tall - 6);
        context.fill();
      }
    }
    context.globalAlpha = 1;
    context.fillStyle = colors.faint;
    for (const fold of scale.folds) {
      const from = (scale.of(fold) / length) * width;
      for (let dot = 0; dot < 3; dot++) context.fillRect(from - 8 - dot * 4, height - 6, 2, 2);
    }
    for (const mark of marks) {
      const x = (markPosition(mark, model, scale) / length) * width;
      context.fillStyle = context.strokeStyle = markColor(colors, mark.kind);
      context.fillRect(x - 0.5, 0, 1, height);
      markSign(context, mark.kind, Math.min(Math.max(x, 5), width - 9), 6);
    }
    context.fillStyle = colors.head;
    context.fillRect(head - 1, 0, 2, height);
    context.beginPath();
    context.moveTo(head - 5, 0);
    context.lineTo(head + 5, 0);
    context.lineTo(head, 7);
    context.fill();
  }, [width, height, at, length, dark, marks, store.version.value]);
  const countAt = (x: number) => scale.countAt((x / Math.max(1, width)) * length);
  const move = (event: PointerEvent) => {
    const x = event.clientX - place.current!.getBoundingClientRect().left;
    if (event.buttons & 1) store.moveTo(countAt(x));
    setHover(x);
  };
  const down = (event: PointerEvent) => {
    place.current!.setPointerCapture(event.pointerId);
    store.isPlaying.value = false;
    move(event);
  };
  const hovered = hover === null ? null : model.writes[countAt(hover) - 1] ?? null;
  const hit = hover === null ? [] : marksNear(marks, (hover / Math.max(1, width)) * length, (MARK / Math.max(1, width)) * length, model, scale);
  const write = model.current();
  return (
    <div
      class="track"
      ref={place}
      role="slider"
      tabIndex={0}
      aria-label="Revision"
      aria-valuemin={model.base}
      aria-valuemax={model.newest()}
      aria-valuenow={model.revision()}
      aria-valuetext={write ? `revision ${write.r}, ${clock(write.t)}, ${writerOf(write)} ${write.verb} ${write.touches[0] ? shortName(write.touches[0].key) : ''}` : `revision ${model.base}`}
      onPointerDown={down}
      onPointerMove={move}
      onPointerLeave={() => setHover(null)}
    >
      <canvas ref={canvas} aria-hidden="true" />
      {hovered && (
        <div class="tip" style={{ left: `${Math.min(Math.max(hover!, 150), Math.max(150, width - 150))}px` }}>
          {hit.slice(0, MOST_HIT).map((mark, nth) => (
            <div key={nth} class="mark-text">
              {MARKS[mark.kind]}: <bdi>{mark.text}</bdi>
            </div>
          ))}
          #{hovered.r} · {clock(hovered.t)} · {writerOf(hovered)} · {hovered.touches[0] && shortName(hovered.touches[0].key)}
        </div>
      )}
    </div>
  );
}
