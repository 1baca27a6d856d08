// What the page's data come from: a server, or the report that the page is in.

import type { Json } from './change.ts';
import type { Kind, Revisions } from './data.ts';
import type { ChangeLine, Row } from './model.ts';

/** A refusal of the server, or what a report does not have. */
export class Refusal extends Error {
  constructor(readonly code: number, message: string) {
    super(message);
  }
}

export interface Source {
  /** The window, and as whom it is read. */
  revisions(): Promise<Revisions>;
  /** The rows at a revision. */
  rows(at: number, signal: AbortSignal, add: (row: Row) => void): Promise<{ kinds: Kind[]; isCut: boolean }>;
  /** The revisions after one, and then the new ones until the source ends the stream. */
  changes(after: number, signal: AbortSignal, add: (lines: ChangeLine[], isCurrent: boolean) => void): Promise<void>;
  /** An object at a revision; null: there was none. */
  objectAt(kind: Kind, namespace: string, name: string, revision: number): Promise<Json>;
}
