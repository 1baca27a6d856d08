// What the two canvases share: their size in pixels of the screen, and the colours of the scheme.

import { useEffect, useState } from 'preact/hooks';
import type { RefObject } from 'preact';
import type { MarkKind } from '../marks.ts';

/** The size of an element, which changes with the window. */
export function useSize(place: RefObject<HTMLElement | null>): [number, number] {
  const [size, setSize] = useState<[number, number]>([0, 0]);
  useEffect(() => {
    if (!place.current) return;
    const element = place.current;
    const observer = new ResizeObserver(() => setSize([element.clientWidth, element.clientHeight]));
    observer.observe(element);
    setSize([element.clientWidth, element.clientHeight]);
    return () => observer.disconnect();
  }, []);
  return size;
}

/** A context of a canvas of a size, in units of the page. */
export function fit(canvas: HTMLCanvasElement | null, width: number, height: number): CanvasRenderingContext2D | null {
  const context = canvas?.getContext('2d') ?? null;
  if (!canvas || !context || !width || !height) return null;
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

export type Palette = Record<string, string>;

const NAMES = ['text', 'faint', 'line', 'track', 'bar', 'accent', 'head', 'surface', 'stripe', 'select', 'font', 's-ready', 's-progress', 's-unready', 's-pending', 's-done', 's-failed', 's-idle', 's-ending', 's-warning', 's-plain'];

/** The colours of the style sheet. */
export function palette(element: Element): Palette {
  const style = getComputedStyle(element);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** The colour of a kind of marks. */
export const markColor = (colors: Palette, kind: MarkKind): string => ({ fault: colors['s-failed'], test: colors.head, tag: colors['s-idle'] })[kind];

/** Draws the sign of a mark, eight pixels high, with its middle at a point. Kinds differ by form: a cross, a flag, a ring. */
export function markSign(context: CanvasRenderingContext2D, kind: MarkKind, x: number, y: number): void {
  context.lineWidth = 2;
  context.beginPath();
  if (kind === 'fault') {
    context.moveTo(x - 4, y - 4);
    context.lineTo(x + 4, y + 4);
    context.moveTo(x + 4, y - 4);
    context.lineTo(x - 4, y + 4);
    context.stroke();
  } else if (kind === 'test') {
    context.moveTo(x, y - 5);
    context.lineTo(x + 8, y - 2);
    context.lineTo(x, y + 1);
    context.fill();
  } else {
    context.arc(x, y, 3.5, 0, 2 * Math.PI);
    context.stroke();
  }
  context.lineWidth = 1;
}

/** Hatches a stretch of a canvas, at least a line wide: what happened in it is not known. */
export function hatch(context: CanvasRenderingContext2D, from: number, to: number, height: number, color: string): void {
  const right = Math.max(to, from + 3);
  context.save();
  context.beginPath();
  context.rect(from, 0, right - from, height);
  context.clip();
  context.globalAlpha = 0.5;
  context.strokeStyle = color;
  context.lineWidth = 1;
  context.beginPath();
  for (let x = from - height; x < right; x += 6) {
    context.moveTo(x, height);
    context.lineTo(x + height, 0);
  }
  context.stroke();
  context.restore();
}
