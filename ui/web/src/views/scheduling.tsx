// Why pods are on their nodes, or on none: the pods, and of one the scheduler's attempts, the verdicts on nodes, and changes that help.

import { useEffect, useState } from 'preact/hooks';
import * as data from '../data.ts';
import { partsOf, rowKey, type Row } from '../model.ts';
import { attemptNumbers, attemptText, behindFirst, commands, lacksOf, placedPods, placementInReport, shortPlugin, waitingPods, type Attempt, type NodeVerdict, type Placement, type Verdicts } from '../scheduling.ts';
import * as store from '../store.ts';
import { clock, count } from '../text.ts';
import { Card, Empty, Mark, ObjectLink, RevisionLink } from './parts.tsx';

const MOST_WAITING = 100;
const MOST_PLACED = 40;
/** Rows of the table of nodes at first. */
const FIRST_NODES = 25;
/** Milliseconds after the last movement of the slider until the page asks. */
const SETTLE = 120;

export function Scheduling() {
  void store.version.value;
  const { subject, namespace } = store.route.value;
  const waiting = waitingPods(store.model.rows.values(), namespace);
  const placed = placedPods(store.model, namespace, MOST_PLACED);
  const first = waiting[0] ?? placed[0]?.row;
  const key = subject || (first ? rowKey(first) : '');
  return (
    <div class="scheduling">
      <div class="side">
        <Card id="waiting-pods" title="Pending" note={String(waiting.length)}>
          {!waiting.length && <Empty>No pod waits for a node at this revision.</Empty>}
          <ul class="choose">
            {waiting.slice(0, MOST_WAITING).map((row) => (
              <Choice key={rowKey(row)} row={row} isChosen={rowKey(row) === key} />
            ))}
          </ul>
          {waiting.length > MOST_WAITING && <p class="note">and {waiting.length - MOST_WAITING} more; the namespace at the top narrows it</p>}
        </Card>
        <Card id="placed-pods" title="Placed" note="the last ones of this window">
          {!placed.length && <Empty>No pod of this revision got its node in the window.</Empty>}
          <ul class="choose">
            {placed.map(({ row, revision }) => (
              <Choice key={rowKey(row)} row={row} isChosen={rowKey(row) === key} revision={revision} />
            ))}
          </ul>
        </Card>
      </div>
      <div class="side">{key ? <Place key={key} objectKey={key} /> : <Empty>Pods appear here as soon as there are any.</Empty>}</div>
    </div>
  );
}

function Choice({ row, isChosen, revision }: { row: Row; isChosen: boolean; revision?: number }) {
  return (
    <li>
      <a href={store.address({ view: 'scheduling', subject: rowKey(row) })} aria-current={isChosen ? 'true' : undefined}>
        <Mark state={row.s} /> <bdi>{`${row.n}/${row.m}`}</bdi>
        <span class="why">{revision === undefined ? (row.t ?? 'no attempt yet') : `→ ${row.d} at #${revision}`}</span>
      </a>
    </li>
  );
}

interface Found {
  answer: Placement | null;
  problem: string;
  /** Whether the answer is about another revision than the slider's, until the next one comes. */
  isOld: boolean;
}

/**
 * The answer about a pod at the slider. While the page is live it is asked for when the pod was written, and not at each revision: an answer
 * costs a list of all nodes and pods.
 */
function usePlacement(key: string, exists: boolean): Found & { again: () => void } {
  const [found, setFound] = useState<Found>({ answer: null, problem: '', isOld: true });
  const [tries, setTries] = useState(0);
  const isLive = store.isLive.value;
  const revision = store.revision.value;
  const wanted = isLive ? `after ${store.model.lastWrite(key)?.r ?? 0}` : String(revision);
  useEffect(() => {
    const controller = new AbortController();
    const row = store.model.rows.get(key);
    if (!row || data.isReport) {
      setFound({ answer: row ? placementInReport(row, store.model, data.reportPlacements(key)) : null, problem: '', isOld: false });
      return;
    }
    setFound((last) => ({ ...last, isOld: true }));
    const timer = setTimeout(() => {
      const { namespace, name } = partsOf(key);
      data.placement(namespace, name, isLive ? null : revision, controller.signal).then(
        (answer) => setFound({ answer, problem: '', isOld: false }),
        (error: Error) => !controller.signal.aborted && setFound({ answer: null, problem: error.message, isOld: false }),
      );
    }, SETTLE);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [key, exists, data.isReport ? revision : wanted, tries]);
  return { ...found, again: () => setTries(tries + 1) };
}

function Place({ objectKey }: { objectKey: string }) {
  const row = store.model.rows.get(objectKey) ?? null;
  const { answer, problem, isOld, again } = usePlacement(objectKey, row !== null);
  const { namespace, name } = partsOf(objectKey);
  const computed = answer?.computed;
  const at = store.isLive.value ? null : store.revision.value;
  return (
    <>
      <Card
        id="placement"
        title="Pod"
        note={
          data.isReport ? undefined : (
            <button type="button" class="small" onClick={again}>
              ask again
            </button>
          )
        }
      >
        <div class={isOld && answer ? 'place old' : 'place'} aria-busy={isOld}>
          <h3 class="pod">
            <Mark state={row?.s} /> <ObjectLink row={{ k: 'pods', n: namespace, m: name }} hasNamespace />
          </h3>
          {!row && <p>This pod does not exist at this revision.</p>}
          {problem && <p class="problem">{problem}</p>}
          {!answer && !problem && row && <p class="faint">reading the state of the cluster…</p>}
          {answer && <State answer={answer} />}
        </div>
      </Card>
      {answer && <Attempts records={answer.records} />}
      {computed && computed.nodes.length > 0 && <Nodes verdicts={computed} own={answer.node} />}
      {computed && answer.state === 'pending' && <Suggestions verdicts={computed} />}
      {answer && !data.isReport && (answer.state === 'pending' || answer.state === 'placed') && (
        <Card id="commands" title="What if" note="to run in a terminal; they change nothing">
          <ul class="commands">
            {commands(answer, at).map((text) => (
              <Command key={text} text={text} />
            ))}
          </ul>
        </Card>
      )}
    </>
  );
}

/** How far the pod is, in sentences. */
function State({ answer }: { answer: Placement }) {
  const { computed, records, notes } = answer;
  const said = records[0]?.refused?.message;
  return (
    <>
      {answer.state === 'ended' && <p>It has ended and needs no node.</p>}
      {answer.state === 'gated' && <p>It waits for its scheduling gates: {answer.schedulingGates?.join(', ')}.</p>}
      {answer.state === 'placed' && (
        <p>
          It is on {answer.node && <ObjectLink row={{ k: 'nodes', m: answer.node }} />}
          {answer.bound && (
            <>
              {' '}
              since <RevisionLink revision={answer.bound.revision} />, by {answer.bound.by}
            </>
          )}
          .
        </p>
      )}
      {answer.state === 'pending' && <p>{computed && !computed.message ? 'It is pending, and a node fits it: the next attempt places it.' : 'It is pending: no node fits it.'}</p>}
      {computed?.message && <p class="why">{computed.message}</p>}
      {said && said !== computed?.message && <p class="why">The scheduler said: {said}</p>}
      {computed?.contradiction && <p class="why">No node can have it: {computed.contradiction}</p>}
      {computed?.evictions && (
        <p>
          Evictions would make room on <ObjectLink row={{ k: 'nodes', m: computed.evictions.node }} />: {computed.evictions.pods.join(', ')}.
        </p>
      )}
      {computed && (
        <p class="faint">
          Computed by the scheduler's own filters and scores from the state at <RevisionLink revision={computed.revision} />
          {answer.state === 'placed' && (computed.isPresent ? ', the present one without the pod' : ', before the pod got its node')}
          {computed.equalsRecord === true && '; equal to the record of the scheduler'}
          {computed.equalsRecord === false && '; differs from the record of the scheduler: other pods were being bound, or the state was another'}.
        </p>
      )}
      {computed && computed.unread.length > 0 && <p class="faint">Without {computed.unread.join(', ')}, which you may not list.</p>}
      {notes.map((note) => (
        <p key={note} class="faint">
          {note}
        </p>
      ))}
    </>
  );
}

function Attempts({ records }: { records: Attempt[] }) {
  const revision = store.isLive.value ? Infinity : store.revision.value;
  return (
    <Card id="attempts" title="Attempts" note="as the scheduler recorded them; a revision leads to what it had read">
      {!records.length && <Empty>{data.isReport ? 'The report has no record of the scheduler about this pod.' : 'The scheduler of this server has no record: it keeps the newest ones in memory, and a scheduler in another process keeps its own.'}</Empty>}
      {records.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col" class="number">
                  Attempt
                </th>
                <th scope="col">Time</th>
                <th scope="col">Had read</th>
                <th scope="col">Result</th>
              </tr>
            </thead>
            <tbody>
              {records.map((record) => (
                <tr key={record.attempt} class={record.seen > revision ? 'future' : ''}>
                  <td class="number">{attemptNumbers(record)}</td>
                  <td class="time">{clock(Date.parse(record.lastTime ?? record.time))}</td>
                  <td>
                    <RevisionLink revision={record.seen} />
                  </td>
                  <td class="wide">{attemptText(record)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

/** Nodes and plugins: scores if a node fits, else which filters refuse. */
function Nodes({ verdicts, own }: { verdicts: Verdicts; own: string | null }) {
  const [showsAll, setAll] = useState(false);
  const { nodes, filters, scores, moreNodes } = verdicts;
  const fitting = nodes.filter(({ fits }) => fits).length;
  const shown = showsAll ? nodes : nodes.slice(0, FIRST_NODES);
  const columns = fitting ? scores.map(({ plugin, weight }) => [plugin, ` ×${weight}`]) : filters.map((plugin) => [plugin, '']);
  const note = `${fitting} of ${count(nodes.length + moreNodes, 'node')} ${fitting === 1 ? 'fits' : 'fit'}${moreNodes ? `, at least; ${moreNodes} further ones are left out` : ''}`;
  return (
    <Card id="verdicts" title="Nodes" note={note}>
      <div class="scroll">
        <table class="verdicts">
          <thead>
            <tr>
              <th scope="col">Node</th>
              {fitting ? (
                <th scope="col" class="number">
                  Total
                </th>
              ) : (
                <th scope="col">Lacks</th>
              )}
              {columns.map(([plugin, weight]) => (
                <th key={plugin} scope="col" class={fitting ? 'number' : 'verdict'} title={plugin}>
                  {shortPlugin(plugin)}
                  {weight}
                </th>
              ))}
              {fitting > 0 && <th scope="col">Against the first</th>}
            </tr>
          </thead>
          <tbody>
            {shown.map((verdict) => (
              <tr key={verdict.node} class={verdict.node === own ? 'current' : ''}>
                <th scope="row">
                  <ObjectLink row={{ k: 'nodes', m: verdict.node }} />
                  {verdict.node === own && <span class="faint"> has it</span>}
                </th>
                {fitting ? <Scores verdict={verdict} verdicts={verdicts} /> : <Refusals verdict={verdict} filters={filters} />}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {nodes.length > shown.length && (
        <p class="note">
          <button type="button" class="small" onClick={() => setAll(true)}>
            show {count(nodes.length, 'node')}
          </button>
        </p>
      )}
    </Card>
  );
}

function Scores({ verdict, verdicts }: { verdict: NodeVerdict; verdicts: Verdicts }) {
  return (
    <>
      <td class="number">{verdict.total ?? '–'}</td>
      {verdicts.scores.map(({ plugin }) => (
        <td key={plugin} class="number">
          {verdict.scores[plugin] ?? ''}
        </td>
      ))}
      <td class="why wide">{verdict.fits ? behindFirst(verdicts, verdict) : `lacks ${lacksOf(verdict)}`}</td>
    </>
  );
}

function Refusals({ verdict, filters }: { verdict: NodeVerdict; filters: string[] }) {
  const refusing = new Set(verdict.refusals.map(({ plugin }) => plugin));
  return (
    <>
      <td class="wide">{lacksOf(verdict)}</td>
      {filters.map((plugin) => (
        <td key={plugin} class={refusing.has(plugin) ? 'verdict refuses' : 'verdict passes'}>
          <span aria-hidden="true">{refusing.has(plugin) ? '✗' : '✓'}</span>
          <span class="hidden">{refusing.has(plugin) ? 'refuses' : 'passes'}</span>
        </td>
      ))}
    </>
  );
}

const PARTS = { pod: 'the pod', node: 'a node', otherPods: 'other pods' };

function Suggestions({ verdicts }: { verdicts: Verdicts }) {
  return (
    <Card id="helps" title="Smallest changes that help" note={`each tried on a copy of #${verdicts.revision}`}>
      {!verdicts.suggestions.length && <Empty>{verdicts.message ? 'No single change that was tried places the pod.' : 'It needs none.'}</Empty>}
      {verdicts.suggestions.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Of</th>
                <th scope="col">Change</th>
                <th scope="col">Then on</th>
              </tr>
            </thead>
            <tbody>
              {verdicts.suggestions.map(({ part, change, node }) => (
                <tr key={`${change} ${node}`}>
                  <td class="faint">{PARTS[part]}</td>
                  <td class="wide">
                    <bdi>{change}</bdi>
                  </td>
                  <td>{node}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

function Command({ text }: { text: string }) {
  const [copied, setCopied] = useState('');
  const copy = () => navigator.clipboard.writeText(text).then(
    () => setCopied('copied'),
    () => setCopied('the browser does not allow it'),
  );
  return (
    <li>
      <code>{text}</code>
      <button type="button" class="small" onClick={copy}>
        copy
      </button>
      <span class="faint" role="status">
        {copied}
      </span>
    </li>
  );
}
