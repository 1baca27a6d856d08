// Two revisions side by side: what differs between the mark and the slider.

import { useEffect, useState } from 'preact/hooks';
import { shortValue, shownChanges, type Change, type Json } from '../change.ts';
import { differing, type Differing } from '../compare.ts';
import { isQuiet, kindName } from '../lanes.ts';
import * as store from '../store.ts';
import { clock, count, STATES } from '../text.ts';
import { natural } from '../tree.ts';
import { readAt } from './object.tsx';
import { Card, Empty, KeyLink, Mark, RevisionLink, Writer } from './parts.tsx';

const MOST = 300;

export function Compare() {
  void store.version.value;
  const { model } = store;
  const { mark, namespace } = store.route.value;
  const [showsAll, setAll] = useState(false);
  const from = mark === null ? Math.max(0, model.nextOutside(-1) - 1) : model.countUpTo(mark);
  const to = model.at;
  const all = differing(model, from, to).filter((one) => !namespace || one.key.split('/')[1] === namespace);
  const shown = all.filter((one) => showsAll || !isQuiet(one.key.split('/')[0]));
  const [old, now] = from <= to ? [from, to] : [to, from];
  const kinds = [...new Set(shown.map((one) => one.key.split('/')[0]))].sort((a, b) => natural(kindName(a), kindName(b)));
  const by = (difference: string) => shown.filter((one) => one.difference === difference).length;
  return (
    <div class="compare">
      <Card
        id="compare"
        title="Compare"
        note={
          <span class="choices">
            <label>
              <input type="checkbox" checked={showsAll} onChange={(event) => setAll(event.currentTarget.checked)} /> all kinds
            </label>
          </span>
        }
      >
        <p class="between">
          <State number={old} /> <span class="faint">→</span> <State number={now} />
          <span class="faint">
            {count(now - old, 'revision')}: {by('added')} added, {by('removed')} removed, {by('changed')} changed
          </span>
          <span class="space" />
          <button type="button" class="small" onClick={() => store.go({ mark: model.revision() })} title="Compare with the revision of the slider ( [ )">
            set the mark here
          </button>
          {mark !== null && (
            <button type="button" class="small" onClick={() => store.go({ mark: null })}>
              mark before the last change from outside
            </button>
          )}
        </p>
        {!shown.length && <Empty>{now === old ? 'The mark and the slider are at the same revision. Move the slider.' : all.length ? `Only kinds differ that are not shown: ${count(all.length, 'object')}.` : 'Nothing differs between these revisions.'}</Empty>}
      </Card>
      {kinds.map((kind) => (
        <Kind key={kind} kind={kind} all={shown.filter((one) => one.key.startsWith(`${kind}/`)).slice(0, MOST)} />
      ))}
    </div>
  );
}

function State({ number }: { number: number }) {
  const write = store.model.writes[number - 1];
  return (
    <span>
      <RevisionLink revision={write ? write.r : store.model.base} /> <span class="time">{write ? clock(write.t) : 'the beginning of the window'}</span>
    </span>
  );
}

function Kind({ kind, all }: { kind: string; all: Differing[] }) {
  return (
    <Card id={`kind-${kind.replace(/[^a-z]/g, '-')}`} title={kindName(kind)} note={String(all.length)}>
      <ul class="differing">
        {all.map((one) => (
          <Entry key={one.key} one={one} />
        ))}
      </ul>
    </Card>
  );
}

const SIGNS = { added: '+', removed: '−', changed: '~' };

function Entry({ one }: { one: Differing }) {
  const [isOpen, setOpen] = useState(false);
  const last = store.model.writes[one.writes[one.writes.length - 1]];
  const row = one.after ?? one.before!;
  return (
    <li class={one.difference}>
      <p class="line">
        <span class="sign" title={one.difference} aria-label={one.difference}>
          {SIGNS[one.difference]}
        </span>
        <Mark state={row.s} /> <KeyLink objectKey={one.key} hasNamespace />
        {one.before && one.after && one.before.s !== one.after.s && (
          <span class="faint">
            {STATES[one.before.s ?? '']} → {STATES[one.after.s ?? '']}
          </span>
        )}
        <span class="faint">
          {count(one.writes.length, 'write')}, last <RevisionLink revision={last.r} /> by <Writer write={last} />
        </span>
        {one.difference === 'changed' && (
          <button type="button" class="small" onClick={() => setOpen(!isOpen)} aria-expanded={isOpen}>
            {isOpen ? 'hide' : 'what changed'}
          </button>
        )}
      </p>
      {isOpen && <Details one={one} />}
    </li>
  );
}

/** The members that differ between the two states. */
function Details({ one }: { one: Differing }) {
  const [found, setFound] = useState<Change[] | string | null>(null);
  const first = one.writes[0];
  const last = store.model.writes[one.writes[one.writes.length - 1]].r;
  useEffect(() => {
    let isOver = false;
    Promise.all([readAt(one.key, first), readAt(one.key, first + 1, last)])
      .then(([old, now]: Json[]) => !isOver && setFound(shownChanges(old, now)))
      .catch((error: unknown) => !isOver && setFound((error as Error).message));
    return () => {
      isOver = true;
    };
  }, [one.key, first, last]);
  if (found === null) return <p class="changes faint">reading…</p>;
  if (typeof found === 'string') return <p class="changes faint">{found}</p>;
  if (!found.length) return <p class="changes faint">managed fields only</p>;
  return (
    <dl class="changes">
      {found.slice(0, 100).map((change) => (
        <div key={change.path}>
          <dt>
            <bdi>{change.path}</bdi>
          </dt>
          <dd>
            <del>
              <bdi>{shortValue(change.from)}</bdi>
            </del>
            <span class="faint"> → </span>
            <ins>
              <bdi>{shortValue(change.to)}</bdi>
            </ins>
          </dd>
        </div>
      ))}
    </dl>
  );
}
