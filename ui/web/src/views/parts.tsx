// Small parts of all views.

import type { ComponentChildren } from 'preact';
import { rowKey, writerOf, type Row, type State, type Write } from '../model.ts';
import { kindName } from '../lanes.ts';
import type { MarkKind } from '../marks.ts';
import * as store from '../store.ts';
import { STATES } from '../text.ts';

/** The shape of a state: states differ by shape, and by colour besides. */
export function Mark({ state }: { state: State | undefined }) {
  const name = state ?? '';
  return (
    <svg class={`mark s-${name || 'plain'}`} viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
      {shape(name)}
    </svg>
  );
}

function shape(state: State) {
  switch (state) {
    case 'ready':
      return <circle cx="6" cy="6" r="5" class="fill" />;
    case 'progress':
      return [<circle cx="6" cy="6" r="4.25" class="line" />, <path d="M6 1.75a4.25 4.25 0 0 1 0 8.5z" class="fill" />];
    case 'unready':
      return [<circle cx="6" cy="6" r="5" class="fill" />, <rect x="3" y="5" width="6" height="2" class="hole" />];
    case 'pending':
      return <path d="M6 1.2 10.8 6 6 10.8 1.2 6z" class="line" />;
    case 'done':
      return <path d="M1.8 6.4 4.8 9.4 10.2 2.8" class="line thick" />;
    case 'failed':
      return <path d="M2 2 10 10M10 2 2 10" class="line thick" />;
    case 'idle':
      return <circle cx="6" cy="6" r="4.25" class="line" />;
    case 'ending':
      return [<circle cx="6" cy="6" r="4.5" class="line dashed" />, <path d="M3.6 6h4.8" class="line" />];
    case 'warning':
      return <path d="M6 1 11.2 10.6H.8z" class="fill" />;
    default:
      return <circle cx="6" cy="6" r="2" class="fill" />;
  }
}

/** A state as shape and word. */
export function StateText({ row }: { row: Row }) {
  return (
    <span class="state">
      <Mark state={row.s} />
      <span>{STATES[row.s ?? '']}</span>
    </span>
  );
}

/** The sign of a kind of marks, as slider and timeline draw it. */
export function MarkSign({ kind }: { kind: MarkKind }) {
  return (
    <svg class={`sign-of-mark mark-${kind}`} viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
      {kind === 'fault' && <path d="M2 2 10 10M10 2 2 10" />}
      {kind === 'test' && <path d="M2.5 1v10M3 2l7 2.5L3 7z" />}
      {kind === 'tag' && <circle cx="6" cy="6" r="4" />}
    </svg>
  );
}

/** A link to an object. Its name is isolated from the direction of the text around it. */
export function ObjectLink({ row, hasKind = false, hasNamespace = false }: { row: Row; hasKind?: boolean; hasNamespace?: boolean }) {
  return (
    <a class="name" href={store.address({ view: 'object', subject: rowKey(row) })} title={`${kindName(row.k)} ${row.n ? `${row.n}/` : ''}${row.m}`}>
      {hasKind && <span class="kind">{kindName(row.k)} </span>}
      <bdi>
        {hasNamespace && row.n ? `${row.n}/` : ''}
        {row.m}
      </bdi>
    </a>
  );
}

/** The parts of a key as a link. */
export function KeyLink({ objectKey, hasNamespace = false }: { objectKey: string; hasNamespace?: boolean }) {
  const [k, n, ...rest] = objectKey.split('/');
  return <ObjectLink row={{ k, n, m: rest.join('/') }} hasKind hasNamespace={hasNamespace} />;
}

/** A revision that moves all views to it. */
export function RevisionLink({ revision }: { revision: number }) {
  return (
    <a class="rev" href={store.address({ at: revision })} title={`Go to revision ${revision}`}>
      #{revision}
    </a>
  );
}

export function Writer({ write }: { write: Write }) {
  return <span class={write.outside ? 'writer outside' : 'writer'}>{writerOf(write)}</span>;
}

export function Card({ title, note, children, id }: { title: string; note?: ComponentChildren; children: ComponentChildren; id: string }) {
  return (
    <section class="card" aria-labelledby={`${id}-title`} id={id}>
      <header>
        <h2 id={`${id}-title`}>{title}</h2>
        {note !== undefined && <span class="note">{note}</span>}
      </header>
      {children}
    </section>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}
