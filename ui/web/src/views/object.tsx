// One object at the revision of the slider: its YAML with who set each field, its history, its events, and what it owns.

import { useEffect, useRef, useState } from 'preact/hooks';
import { masked, shownChanges, shortValue, type Change, type Json } from '../change.ts';
import * as data from '../data.ts';
import { kindName } from '../lanes.ts';
import { partsOf, rowKey, type Row, type Write } from '../model.ts';
import * as store from '../store.ts';
import { clock, count, second } from '../text.ts';
import { lines, toText, type Line, type Owner } from '../yaml.ts';
import { ageOf } from './overview.tsx';
import { Card, Empty, KeyLink, Mark, ObjectLink, RevisionLink, StateText, Writer } from './parts.tsx';

const MOST_ENTRIES = 100;
const MOST_CHANGES = 12;

export function ObjectView() {
  const key = store.route.value.subject;
  const tree = store.tree.value;
  const row = tree.rows.get(key) ?? null;
  const last = lastKnown(key);
  const { kind, namespace, name } = partsOf(key);
  const shown = row ?? last;
  return (
    <div class="object">
      <header class="title">
        <h2>
          {shown && <Mark state={row ? row.s : undefined} />} <span class="kind">{kindName(kind)}</span> <bdi>{name}</bdi>
        </h2>
        <span class="facts">
          {namespace && (
            <span>
              namespace <ObjectLink row={{ k: 'namespaces', m: namespace }} />
            </span>
          )}
          {row && <StateText row={row} />}
          {row?.r && <span>{row.r} ready</span>}
          {row?.d && (
            <span>
              on <ObjectLink row={{ k: 'nodes', m: row.d }} />
            </span>
          )}
          {row?.k === 'pods' && (
            <a href={store.address({ view: 'scheduling', subject: key, search: '' })}>{row.d ? 'why this node' : 'why no node'}</a>
          )}
          {row?.c && <span title={row.c}>age {ageOf(row)}</span>}
          {!row && <span class="gone">{last ? 'does not exist at this revision' : 'is not in this window'}</span>}
        </span>
        {row?.t && <p class="why">{row.t}</p>}
        {shown && <Owners row={shown} />}
      </header>
      <div class="columns">
        <Yaml objectKey={key} exists={row !== null} />
        <div class="side">
          <History objectKey={key} />
          {shown && <ObjectEvents row={shown} />}
        </div>
      </div>
    </div>
  );
}

/** The newest row of an object in the window, wherever the cursor is. */
function lastKnown(key: string): Row | null {
  const indexes = store.model.byKey.get(key) ?? [];
  for (let at = indexes.length - 1; at >= 0; at--) {
    const touch = store.model.writes[indexes[at]].touches.find((own) => own.key === key);
    if (touch?.after ?? touch?.before) return touch.after ?? touch.before;
  }
  return store.model.first.get(key) ?? null;
}

function Owners({ row }: { row: Row }) {
  const tree = store.tree.value;
  const owners = tree.owners(row).reverse();
  const children = tree.children(row);
  const first = children.slice(0, 12);
  if (!owners.length && !children.length) return null;
  return (
    <p class="owners">
      {owners.map((owner) => (
        <>
          <ObjectLink row={owner} hasKind /> <span class="faint">›</span>{' '}
        </>
      ))}
      <strong>{owners.length ? 'this' : 'owns'}</strong>
      {children.length > 0 && owners.length > 0 && <span class="faint"> › </span>}{' '}
      {first.map((child, at) => (
        <>
          {at > 0 && ', '}
          <Mark state={child.s} /> <ObjectLink row={child} hasKind />
        </>
      ))}
      {children.length > first.length && ` and ${children.length - first.length} more`}
    </p>
  );
}

/** The revision whose read shows the object as of the cursor: that of its last write, so that moving the slider reads no object twice. */
function revisionOf(key: string, at: number): number {
  const indexes = store.model.byKey.get(key) ?? [];
  for (let i = indexes.length - 1; i >= 0; i--) if (indexes[i] < at) return store.model.writes[indexes[i]].r;
  return store.model.base;
}

function read(key: string, revision: number): Promise<Json> {
  const { kind, namespace, name } = partsOf(key);
  const known = store.kinds.value.get(kind);
  return known ? data.objectAt(known, namespace, name, revision) : Promise.reject(new Error(`${kind} is no kind of this server`));
}

/** An object after a number of writes, or at a revision. */
export const readAt = (key: string, count: number, revision = revisionOf(key, count)): Promise<Json> => read(key, revision);

function Yaml({ objectKey, exists }: { objectKey: string; exists: boolean }) {
  const revision = revisionOf(objectKey, (void store.version.value, store.model.at));
  const [shown, setShown] = useState<{ key: string; revision: number; all: Line[] } | null>(null);
  const [problem, setProblem] = useState('');
  const [wasCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!exists) return;
    let isOver = false;
    const timer = setTimeout(() => {
      read(objectKey, revision)
        .then((object) => {
          if (isOver) return;
          setShown({ key: objectKey, revision, all: object === null ? [] : lines(masked(object)) });
          setProblem('');
        })
        .catch((error: unknown) => {
          if (!isOver) setProblem(error instanceof data.Refusal && error.code === 410 ? 'The server no longer has this state: a longer --history keeps more.' : String((error as Error).message));
        });
    }, shown?.key === objectKey ? 120 : 0);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [objectKey, revision, exists]);
  const isOld = shown !== null && (shown.key !== objectKey || shown.revision !== revision || !exists);
  const own = shown?.key === objectKey ? shown : null;
  const copy = () => {
    if (own) void navigator.clipboard.writeText(toText(own.all)).then(() => (setCopied(true), setTimeout(() => setCopied(false), 1500)));
  };
  return (
    <Card
      id="yaml"
      title="YAML"
      note={
        <>
          {own && !isOld && (
            <>
              written at <RevisionLink revision={own.revision} />{' '}
            </>
          )}
          <button type="button" class="small" onClick={copy} disabled={!own}>
            {wasCopied ? 'copied' : 'copy'}
          </button>
        </>
      }
    >
      {problem && <p class="problem">{problem}</p>}
      {!exists && !own && <Empty>There is nothing to show: the object does not exist at this revision. Its history is beside.</Empty>}
      {own && (
        <div class={isOld ? 'yaml old' : 'yaml'} tabIndex={0} role="region" aria-label="YAML with who set each field">
          <YamlLines all={own.all} />
        </div>
      )}
    </Card>
  );
}

function YamlLines({ all }: { all: Line[] }) {
  let before = '';
  return (
    <table class="code">
      <thead class="hidden">
        <tr>
          <th>Line</th>
          <th>Set by</th>
        </tr>
      </thead>
      <tbody>
        {all.map((line, at) => {
          const owner = line.owners[0];
          const name = owner ? nameOf(owner) : '';
          const isNew = name !== before;
          before = name;
          return (
            <tr key={at}>
              <td>
                <span class="indent">{'  '.repeat(line.indent)}</span>
                {line.lead && <span class="faint">{line.lead}</span>}
                {line.name && (
                  <>
                    <span class="member">{line.name}</span>
                    <span class="faint">:</span>{' '}
                  </>
                )}
                <bdi class={`v-${line.kind}`}>{line.value}</bdi>
              </td>
              <td class="owner" title={line.owners.map((own) => `${nameOf(own)}, ${own.operation} at ${own.time}`).join('\n')}>
                {isNew && owner ? (
                  <>
                    {name} <span class="time">{second(Date.parse(owner.time))}</span>
                  </>
                ) : owner ? (
                  <span class="same" aria-hidden="true">
                    │
                  </span>
                ) : null}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

const nameOf = (owner: Owner): string => owner.manager + (owner.subresource ? ` (${owner.subresource})` : '');

function History({ objectKey }: { objectKey: string }) {
  void store.version.value;
  const indexes = store.model.byKey.get(objectKey) ?? [];
  const shown = indexes.slice(-MOST_ENTRIES).reverse();
  const isBefore = store.model.first.has(objectKey);
  return (
    <Card id="history" title="History" note={count(indexes.length, 'write')}>
      {!indexes.length && <Empty>{isBefore ? `Nothing was written to it since #${store.model.base}, where this window begins.` : 'No write to it is known.'}</Empty>}
      <ol class="history">
        {folded(shown).map((group) => (
          <Group key={store.model.writes[group[group.length - 1]].r} group={group} objectKey={objectKey} />
        ))}
      </ol>
      {isBefore && indexes.length > 0 && <p class="note">It existed before #{store.model.base}, where this window begins.</p>}
    </Card>
  );
}

/** Neighbours that are status writes of one program, as one group each. */
function folded(indexes: number[]): number[][] {
  const groups: number[][] = [];
  for (const index of indexes) {
    const last = groups[groups.length - 1];
    const [one, other] = [store.model.writes[index], last && store.model.writes[last[0]]];
    if (other && one.verb.endsWith('/status') && one.verb === other.verb && one.agent === other.agent) last.push(index);
    else groups.push([index]);
  }
  return groups;
}

/** Writes of one group, the newest first: the first one is shown, the others on demand. */
function Group({ group, objectKey }: { group: number[]; objectKey: string }) {
  const [isOpen, setOpen] = useState(false);
  const current = group.findIndex((index) => store.model.writes[index].r === revisionOf(objectKey, store.model.at));
  const shown = isOpen ? group : group.slice(0, 1);
  return (
    <>
      {shown.map((index) => (
        <Entry key={index} write={store.model.writes[index]} objectKey={objectKey} index={index} />
      ))}
      {group.length > 1 && (
        <li class={current > 0 && !isOpen ? 'more current' : 'more'}>
          <button type="button" class="small" onClick={() => setOpen(!isOpen)} aria-expanded={isOpen}>
            {isOpen ? 'fewer' : `${count(group.length - 1, 'earlier status write')}, from #${store.model.writes[group[group.length - 1]].r}`}
          </button>
        </li>
      )}
    </>
  );
}

/** One write, with what it changed once it is seen. */
function Entry({ write, objectKey, index }: { write: Write; objectKey: string; index: number }) {
  const all = store.model.byKey.get(objectKey) ?? [];
  const before = all[all.indexOf(index) - 1];
  const touch = write.touches.find((own) => own.key === objectKey)!;
  const consequences = store.model.consequences(write.r);
  const isFuture = index >= store.model.at;
  const isCurrent = revisionOf(objectKey, store.model.at) === write.r;
  return (
    <li class={`${isFuture ? 'future' : ''} ${isCurrent ? 'current' : ''}`} aria-current={isCurrent ? 'true' : undefined}>
      <p class="line">
        <RevisionLink revision={write.r} /> <span class="time">{clock(write.t)}</span> <Writer write={write} /> <span class="verb">{touch.effect === 'updated' ? write.verb : touch.effect}</span>
      </p>
      {(write.causes.length > 0 || consequences > 0) && (
        <p class="causes">
          {write.causes.length > 0 && <Causes causes={write.causes} />}
          {consequences > 0 && (
            <a href={store.address({ view: 'timeline', write: write.r })}>led to {count(consequences, 'write')}</a>
          )}
        </p>
      )}
      <Changes write={write} objectKey={objectKey} before={before} opens />
    </li>
  );
}

export function Causes({ causes, lead = 'because of ' }: { causes: number[]; lead?: string }) {
  return (
    <span>
      {lead}
      {causes.slice(-3).map((cause, at) => {
        const key = store.model.find(cause)?.touches[0]?.key;
        return (
          <>
            {at > 0 && ', '}
            <RevisionLink revision={cause} />
            {key && (
              <>
                {' '}
                <KeyLink objectKey={key} />
              </>
            )}
          </>
        );
      })}
      {causes.length > 3 && ` and ${causes.length - 3} more`}{' '}
    </span>
  );
}

/** What a write changed in an object. The states are read when the entry is seen. */
export function Changes({ write, objectKey, before, opens }: { write: Write; objectKey: string; before: number | undefined; opens: boolean }) {
  const touch = write.touches.find((own) => own.key === objectKey);
  const [found, setFound] = useState<Change[] | string | null>(null);
  const [isOpen, setOpen] = useState(opens);
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    setFound(null);
  }, [write.r, objectKey]);
  useEffect(() => {
    if (!isOpen || found !== null || touch?.effect !== 'updated') return;
    let isOver = false;
    const load = () => {
      const old = before === undefined ? store.model.base : store.model.writes[before].r;
      Promise.all([read(objectKey, old), read(objectKey, write.r)])
        .then(([one, two]) => !isOver && setFound(shownChanges(one, two)))
        .catch((error: unknown) => !isOver && setFound((error as Error).message));
    };
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) {
        observer.disconnect();
        load();
      }
    });
    if (place.current) observer.observe(place.current);
    return () => {
      isOver = true;
      observer.disconnect();
    };
  }, [isOpen, found, write.r, objectKey]);
  if (!touch) return null;
  if (touch.effect === 'created') return touch.after?.i ? <p class="changes plain">with {touch.after.i.join(', ')}</p> : null;
  if (touch.effect === 'deleted') return null;
  if (!isOpen) {
    return (
      <button type="button" class="small" onClick={() => setOpen(true)}>
        what changed
      </button>
    );
  }
  return (
    <div class="changes" ref={place}>
      {found === null && <span class="faint">reading what changed…</span>}
      {typeof found === 'string' && <span class="faint">{found}</span>}
      {Array.isArray(found) && <ChangeList found={found} />}
    </div>
  );
}

function ChangeList({ found }: { found: Change[] }) {
  const [showsAll, setAll] = useState(false);
  if (!found.length) return <span class="faint">managed fields only</span>;
  const shown = showsAll ? found : found.slice(0, MOST_CHANGES);
  return (
    <>
      <dl>
        {shown.map((change) => (
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
      {found.length > shown.length && (
        <button type="button" class="small" onClick={() => setAll(true)}>
          {found.length - shown.length} more
        </button>
      )}
    </>
  );
}

function ObjectEvents({ row }: { row: Row }) {
  const events = [...store.tree.value.rows.values()].filter((own) => own.k === 'events' && row.u !== undefined && own.o === row.u);
  const sorted = events.map((own) => ({ own, write: store.model.lastWrite(rowKey(own)) })).sort((a, b) => (b.write?.r ?? 0) - (a.write?.r ?? 0));
  return (
    <Card id="object-events" title="Events" note={events.length ? String(events.length) : undefined}>
      {!events.length && <Empty>No events about it at this revision.</Empty>}
      <ul class="events">
        {sorted.slice(0, 50).map(({ own, write }) => (
          <li key={rowKey(own)}>
            <span class="time">{write ? second(write.t) : ageOf(own)}</span>
            <Mark state={own.s} />
            <span class="why">
              {own.t}
              {(own.x ?? 0) > 1 && <span class="faint"> ×{own.x}</span>}
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}
