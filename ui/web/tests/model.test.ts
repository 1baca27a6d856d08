import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isComponent, Model, rowKey, writerOf, type ChangeLine, type Row } from '../src/model.ts';
import { line, numbers, pod } from './check.ts';

test('moves forward and back give the rows of each revision', () => {
  for (let seed = 1; seed <= 30; seed++) {
    const next = numbers(seed);
    const model = new Model(10);
    const rows = new Map<string, Row>();
    for (let at = 0; at < 5; at++) {
      const row = pod(`p${at}`);
      rows.set(rowKey(row), row);
      model.addRow(row);
    }
    // The expected rows of each revision, each a map of its own.
    const expected = [new Map(rows)];
    const revisions = [10];
    for (let r = 11; r < 60; r += 1 + next(3)) {
      const touched: ChangeLine['o'] = [];
      for (let n = 0; n <= next(3); n++) {
        const row = pod(`p${next(8)}`, { t: `${r}.${n}` });
        const key = rowKey(row);
        if (touched.some(([, , name]) => name === row.m)) continue;
        const isDeleted = rows.has(key) && next(3) === 0;
        touched.push(['pods', 'default', row.m, isDeleted ? 'deleted' : rows.has(key) ? 'updated' : 'created', isDeleted ? null : row]);
        if (isDeleted) rows.delete(key);
        else rows.set(key, row);
      }
      model.add({ r, t: r, w: ['u', 'a', 'v'], o: touched }, next(2) === 0);
      expected.push(new Map(rows));
      revisions.push(r);
    }
    for (let move = 0; move < 200; move++) {
      const count = next(expected.length);
      model.seek(count);
      assert.equal(model.revision(), revisions[count]);
      assert.deepEqual(new Map([...model.rows].sort()), new Map([...expected[count]].sort()), `seed ${seed}, after ${count} writes`);
    }
  }
});

test('the cursor follows only where it is at the newest revision', () => {
  const model = new Model(1);
  model.add(line(2, 'created', pod('a')), true);
  model.add(line(3, 'created', pod('b')), true);
  assert.equal(model.revision(), 3);
  model.seek(1);
  model.add(line(4, 'created', pod('c')), true);
  assert.equal(model.revision(), 2);
  model.add(line(4, 'created', pod('d')), true);
  assert.equal(model.writes.length, 3, 'a revision that comes again after a broken stream changes nothing');
});

test('the count of a revision is that of the writes up to it', () => {
  const model = new Model(5);
  for (const r of [7, 9, 12]) model.add(line(r, 'updated', pod('a')), false);
  assert.deepEqual([1, 5, 7, 8, 9, 12, 99].map((r) => model.countUpTo(r)), [0, 0, 1, 1, 2, 3, 3]);
  assert.deepEqual([model.find(9)?.r, model.find(8)], [9, null]);
});

test('writes without a cause by people are from outside, and consequences are counted once', () => {
  const model = new Model(1);
  const controller: [string, string, string] = ['system:serviceaccount:kube-system:deployment-controller', 'deployment-controller/kstore', 'create'];
  model.add(line(2, 'created', pod('a')), true);
  model.add(line(3, 'created', pod('b'), { c: [2], w: controller }), true);
  model.add(line(4, 'created', pod('c'), { c: [2, 3], w: controller }), true);
  model.add(line(5, 'updated', pod('a'), { w: controller }), true);
  model.add(line(6, 'updated', pod('a'), { c: [4] }), true);
  assert.deepEqual(model.writes.map((write) => write.outside), [true, false, false, false, false]);
  assert.equal(model.consequences(2), 3);
  assert.equal(model.nextOutside(-1), 1);
  assert.deepEqual([writerOf(model.writes[0]), writerOf(model.writes[1])], ['jane (kubectl)', 'deployment-controller']);
  assert.equal(model.lastWrite('pods/default/a', (write) => write.outside)?.r, 2);
  assert.ok(isComponent('system:node:node-1') && !isComponent('system:serviceaccount:default:operator'));
});

test('times never go back, as the clock of a server can', () => {
  const model = new Model(1);
  for (const [r, t] of [[2, 5_000_000], [3, 4_000_000], [4, 6_000_000]]) model.add(line(r, 'updated', pod('a'), { t }), true);
  assert.deepEqual(model.writes.map((write) => write.t), [5000, 5000, 6000]);
});

test('a gap of a recording reaches from the last write before it to the difference', () => {
  const model = new Model(1);
  const add = (r: number, seconds: number, agent: string) => model.add({ r, t: seconds * 1_000_000, w: ['', agent, 'update'], o: line(r, 'created', pod(`p${r}`)).o }, true);
  add(2, 10, 'kubectl');
  add(3, 21, 'kubectl');
  add(4, 30, 'kstore-record (gap 12 s) (late)');
  add(5, 31, 'kstore-record (late)');
  // The clock of the recorder may have been wrong: a gap ends with its write in any case.
  add(6, 31, 'kstore-record (gap 0 s)');
  assert.deepEqual(model.gaps, [{ from: 1, to: 3, seconds: 12 }]);
  assert.equal(writerOf(model.writes[2]), 'the recorder, after 12 s that it missed');
  assert.deepEqual([model.countUpToTime(9_999), model.countUpToTime(10_000), model.countUpToTime(99_000)], [0, 1, 5]);
});
