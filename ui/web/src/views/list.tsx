// Objects of a kind, or those that a search finds, at the revision of the slider.

import { useState } from 'preact/hooks';
import { rowKey, type Row } from '../model.ts';
import { kindName } from '../lanes.ts';
import { deletedRows, factsOf, isEmpty, matches, parseQuery, wantsDeleted } from '../search.ts';
import * as store from '../store.ts';
import { byName } from '../tree.ts';
import { ageOf } from './overview.tsx';
import { Card, Empty, ObjectLink, StateText } from './parts.tsx';

/** Rows at first, and rows that are shown on demand: many rows make the slider slow. */
const FIRST = 150;
const MOST = 2_000;

export function List() {
  const { subject, search, namespace } = store.route.value;
  const rows = store.tree.value.rows;
  const query = parseQuery(search);
  const found: Row[] = [];
  for (const row of wantsDeleted(query) ? deletedRows(store.model) : rows.values()) {
    if (subject && row.k !== subject) continue;
    if (!subject && row.k === 'events' && !query.members.some(([member]) => member === 'kind')) continue;
    if (namespace && row.n !== namespace) continue;
    if (isEmpty(query) || matches(row, query, factsOf(store.model, row))) found.push(row);
  }
  found.sort(byName);
  const [most, setMost] = useState(FIRST);
  const shown = found.slice(0, most);
  const title = subject ? `${kindName(subject)} · ${subject}` : search ? `Objects with “${search}”` : 'All objects';
  const isNamespaced = shown.some((row) => row.n) && !namespace;
  const hasNode = shown.some((row) => row.d);
  const hasDetails = shown.some((row) => row.t || row.i || row.x);
  const hasReady = shown.some((row) => row.r);
  return (
    <Card id="list" title={title} note={found.length > shown.length ? `the first ${shown.length} of ${found.length.toLocaleString('en')}` : String(found.length)}>
      {query.notes.map((note) => (
        <p class="note" key={note}>
          <bdi>{note}</bdi>
        </p>
      ))}
      {!found.length && <Empty>{search ? 'Nothing matches at this revision. Words match names, kinds, labels and images; kind:pod, ns:, node:, image:, state:, phase:, by:, rev:, deleted:yes and app=web narrow it.' : 'There are none at this revision.'}</Empty>}
      {!!found.length && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>Name</th>
                {isNamespaced && <th>Namespace</th>}
                <th>State</th>
                {hasReady && <th class="number">Ready</th>}
                {hasNode && <th>Node</th>}
                <th class="number">Age</th>
                {hasDetails && <th>Details</th>}
              </tr>
            </thead>
            <tbody>
              {shown.map((row) => (
                <tr key={rowKey(row)}>
                  <td>
                    <ObjectLink row={row} hasKind={!subject} />
                  </td>
                  {isNamespaced && <td class="ns">{row.n}</td>}
                  <td>
                    <StateText row={row} />
                  </td>
                  {hasReady && <td class="number">{row.r}</td>}
                  {hasNode && <td>{row.d && <ObjectLink row={{ k: 'nodes', m: row.d }} />}</td>}
                  <td class="number">{ageOf(row)}</td>
                  {hasDetails && (
                    <td class="why wide">
                      <bdi>{[row.t, (row.i ?? []).join(', '), row.x && row.k === 'pods' ? `${row.x} restarts` : ''].filter(Boolean).join(' · ')}</bdi>
                    </td>
                  )}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {found.length > shown.length && most < MOST && (
        <p class="note">
          <button type="button" class="small" onClick={() => setMost(MOST)}>
            show {found.length > MOST ? `the first ${MOST.toLocaleString('en')}` : 'all'}
          </button>
        </p>
      )}
    </Card>
  );
}
