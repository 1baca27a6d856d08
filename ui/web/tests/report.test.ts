import assert from 'node:assert/strict';
import test from 'node:test';
import { deflateSync } from 'node:zlib';
import { masked, type Json } from '../src/change.ts';
import { applyEdits, readChunks, Report, type Edit } from '../src/report.ts';
import type { Kind } from '../src/data.ts';
import type { ChangeLine, Row } from '../src/model.ts';
import { numbers, pod } from './check.ts';
import edits from './edits.json';

const PODS: Kind = { resource: 'pods', group: '', version: 'v1', plural: 'pods', kind: 'Pod', namespaced: true, visible: 'all' };

/** A data element, as the writer in Rust makes it. */
function element(chunks: [string, unknown[]][], first = 'KSTORE-REPORT 1\n'): string {
  const parts = [Buffer.from(first)];
  for (const [kind, lines] of chunks) {
    const content = deflateSync(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(content.length);
    parts.push(Buffer.from(kind.padEnd(8)), length, content);
  }
  return Buffer.concat(parts).toString('base64');
}

const ABOUT = { title: 't', time: '', clock: 'real', user: 'u', namespace: '', failure: '', output: '', version: '', from: 5, leftOut: [] };

test('edits are applied as the writer made them, and the value before stays', () => {
  const cases = edits as [Json, Json, Edit[]][];
  assert.ok(cases.length > 5);
  for (const [old, now, edits] of cases) {
    const before = JSON.stringify(old);
    assert.deepEqual(applyEdits(old, edits), now);
    assert.equal(JSON.stringify(old), before);
  }
});

test('a report shows states, what was left out, and a former object of the same name', async () => {
  const state = (r: number): Json => ({ metadata: { name: 'a', resourceVersion: String(r) } });
  const changed = (effect: string, row: unknown, body: unknown) => [['pods', 'default', 'a', effect, row, body]];
  const report = await Report.open(
    element([
      ['meta', [ABOUT]],
      ['rows', [{ revision: 5, kinds: [PODS] }, pod('a'), pod('b')]],
      ['base', [['pods', 'default', 'a', state(4)]]],
      ['later', [{ unknown: true }]],
      ['changes', [
        { r: 6, o: changed('updated', [[['s'], 'failed']], [[['metadata', 'resourceVersion'], '6']]) },
        { r: 7, o: changed('updated', [], null) },
        { r: 8, o: changed('updated', [[['s']]], [[['metadata', 'resourceVersion'], '8']]) },
        { r: 9, o: changed('deleted', null, null) },
        { r: 10, o: changed('created', pod('a', { u: 'other' }), state(10)) },
      ]],
    ]),
  );
  const at = (name: string, r: number) => report.objectAt(PODS, 'default', name, r);
  for (const r of [6, 8, 10]) assert.deepEqual(await at('a', r), state(r));
  assert.deepEqual(await at('a', 5), state(4));
  assert.equal(await at('a', 9), null);
  assert.equal(await at('c', 9), null);
  await assert.rejects(at('a', 7), /not in the report/);
  await assert.rejects(at('b', 7), /not in the report/);
  const lines: ChangeLine[] = [];
  const controller = new AbortController();
  const done = report.changes(6, controller.signal, (found, isCurrent) => (assert.ok(isCurrent), lines.push(...found)));
  assert.deepEqual(lines.map((line) => [line.r, (line.o[0][4] as Row | null)?.s]), [[7, 'failed'], [8, undefined], [9, undefined], [10, 'ready']]);
  controller.abort();
  await done;
});

test('a damaged report says what is damaged, and a newer one which version it has', async () => {
  const whole = element([['meta', [ABOUT]], ['rows', [{ revision: 5, kinds: [] }]]]);
  const cut = Buffer.from(whole, 'base64').subarray(0, -3).toString('base64');
  await assert.rejects(readChunks(cut), /ends within the chunk rows/);
  await assert.rejects(readChunks('%%'), /no base64/);
  await assert.rejects(readChunks(element([], 'KSTORE-REPORT 7\n')), /version 7 of the format.*up to version 1/);
  await assert.rejects(readChunks(element([], 'SOMETHING ELSE\n')), /another line/);
  await assert.rejects(Report.open(element([['meta', [ABOUT]]])), /no rows/);
  const bytes = Buffer.from(whole, 'base64');
  const random = numbers(3);
  for (let round = 0; round < 60; round++) {
    const flipped = Buffer.from(bytes);
    flipped[20 + random(flipped.length - 20)] ^= 1 << random(8);
    // A flipped bit of a type makes a chunk that nobody knows; all others are found.
    const found = await readChunks(flipped.toString('base64')).then((chunks) => [...chunks.keys()], (error: Error) => error.message);
    assert.ok(typeof found === 'string' ? /damaged/.test(found) : !found.includes('meta') || !found.includes('rows'), String(found));
  }
});

test('values of Secrets that the report has hidden are shown as they are', () => {
  const secret = { kind: 'Secret', data: { a: '••• (7 bytes, set at #5)', b: 'aHVudGVyMg==' } };
  assert.deepEqual((masked(secret) as typeof secret).data, { a: '••• (7 bytes, set at #5)', b: '••• (7 bytes)' });
});

test('a report has attempts, the last reading of the metrics, and marks; one without them has none', async () => {
  const chunks: [string, unknown[]][] = [['meta', [ABOUT]], ['rows', [{ revision: 5, kinds: [PODS] }]], ['base', []], ['changes', []]];
  const facts: [string, unknown[]][] = [
    ['marks', [{ kind: 'tag', r: 5, text: 'begin' }]],
    ['server', [{ version: 'v1', metrics: 'a 1' }, { version: 'v1', metrics: 'a 2' }]],
    ['attempts', [{ pod: 'default/a', uid: '1', records: [] }, { pod: 'default/a', uid: '2', records: [] }]],
  ];
  const report = await Report.open(element([...chunks, ...facts]));
  assert.deepEqual(report.placements('pods/default/a').map(({ uid }) => uid), ['1', '2']);
  assert.deepEqual([report.reading?.metrics, report.marks, report.placements('pods/default/b')], ['a 2', [{ kind: 'tag', r: 5, text: 'begin' }], []]);
  const plain = await Report.open(element(chunks));
  assert.deepEqual([plain.reading, plain.marks, plain.placements('pods/default/a')], [null, [], []]);
});
