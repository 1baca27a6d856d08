// Marks: places in the life of a cluster with a text: what a plan did, parts of a test, tags of revisions. Pure.

import type { Model } from './model.ts';
import type { Scale } from './scale.ts';

export type MarkKind = 'fault' | 'test' | 'tag';

/** A mark, after the write of a revision. */
export interface Mark {
  kind: MarkKind;
  /** The newest revision at that moment. */
  r: number;
  text: string;
}

/** The kinds of marks for people. */
export const MARKS: Record<MarkKind, string> = { fault: 'fault', test: 'test', tag: 'tag' };

/** The marks in lines that may be of another program; in the order of their revisions. */
export function readMarks(lines: unknown[]): Mark[] {
  const found: Mark[] = [];
  for (const line of lines as Partial<Mark>[]) {
    if (line.kind && Object.hasOwn(MARKS, line.kind) && typeof line.r === 'number' && typeof line.text === 'string') found.push({ kind: line.kind, r: line.r, text: line.text });
  }
  return found.sort((a, b) => a.r - b.r);
}

/** The position of a mark on the axis. */
export const markPosition = (mark: Mark, model: Model, scale: Scale): number => scale.of(model.countUpTo(mark.r));

/** The time of a mark: that of the write before it; null: there is none in the window. */
export const markTime = (mark: Mark, model: Model): number | null => model.writes[model.countUpTo(mark.r) - 1]?.t ?? null;

/** The marks within a distance of a position. */
export const marksNear = (marks: Mark[], position: number, distance: number, model: Model, scale: Scale): Mark[] =>
  marks.filter((mark) => Math.abs(markPosition(mark, model, scale) - position) <= distance);
