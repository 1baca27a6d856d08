import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bound, bytes, chartLine, loadBetween, quantile, read, requestsUpTo, short, verbsBetween, verbsUpTo, writeRates } from '../src/metrics.ts';

/** A page of metrics after a number of GETs, of which some took long. */
const page = (gets: number, slow: number, more = '') => `# HELP apiserver_request_total x
# TYPE apiserver_request_total counter
apiserver_request_total{verb="GET",group="",resource="pods",code="200"} ${gets}
apiserver_request_total{verb="GET",group="",resource="nodes",code="503"} 2
apiserver_request_total{verb="POST",group="",resource="pods",code="429"} 1
apiserver_request_duration_seconds_bucket{verb="GET",resource="pods",le="0.005"} ${gets - slow}
apiserver_request_duration_seconds_bucket{verb="GET",resource="pods",le="0.1"} ${gets}
apiserver_request_duration_seconds_bucket{verb="GET",resource="pods",le="+Inf"} ${gets}
apiserver_request_duration_seconds_bucket{verb="WATCH",resource="pods",le="+Inf"} 9
apiserver_longrunning_requests{verb="WATCH",resource="pods"} 3
apiserver_longrunning_requests{verb="CONNECT",resource="pods"} 5
etcd_requests_total{operation="create",type="pods"} ${gets * 2}
etcd_requests_total{operation="list",type="pods"} 100
apiserver_watch_events_total{group="",version="v1",resource="pods"} 7
apiserver_storage_objects{resource="pods"} 4
apiserver_storage_objects{resource="unknown"} -1
kstore_component_restarts_total{component="scheduler"} 1
process_cpu_seconds_total ${gets / 100}
process_resident_memory_bytes 1.5e+08
process_start_time_seconds 1796005964.72
process_start_time_seconds_of_another 1
${more}`;

test('a reading takes the sums over the labels that it does not need', () => {
  const reading = read(page(100, 5), 7);
  assert.deepEqual([...reading.requests], [['GET', 102], ['POST', 1]]);
  assert.deepEqual([reading.t, reading.failures, reading.writes, reading.events, reading.watches, reading.objects, reading.restarts], [7, 3, 200, 7, 3, 4, 1]);
  assert.deepEqual([reading.processor, reading.memory, reading.started], [1, 150_000_000, 1796005964.72]);
  assert.deepEqual([...reading.durations.keys()], ['GET']);
  assert.deepEqual([...reading.durations.get('GET')!], [[0.005, 95], [0.1, 100], [Infinity, 100]]);
  assert.equal(read('', 1).requests.size, 0);
});

test('the load is what came between two readings, a second', () => {
  const [before, after] = [read(page(100, 0), 1_000), read(page(200, 10), 6_000)];
  const load = loadBetween(before, after)!;
  assert.deepEqual([load.requests, load.failures, load.writes, load.processor, load.memory, load.watches], [20, 0, 40, 0.2, 150_000_000, 3]);
  assert.deepEqual(verbsBetween(before, after), [{ verb: 'GET', number: 100, rate: 20, p50: 0.005, p99: 0.1 }]);
  assert.equal(loadBetween(after, after), null);
  assert.equal(loadBetween(before, { ...after, started: 5 }), null, 'another process counts from zero');
  assert.deepEqual(verbsBetween(before, { ...after, started: 5 }), []);
});

test('a quantile is the bound of a bucket, and is not guessed within it', () => {
  const counts: [number, number][] = [[Infinity, 100], [0.1, 98], [0.005, 50]];
  assert.deepEqual([quantile(counts, 0.5), quantile(counts, 0.51), quantile(counts, 0.99), quantile([], 0.5), quantile([[1, 0]], 0.5)], [0.005, 0.1, Infinity, null, null]);
  assert.deepEqual([bound(0.005), bound(1.25), bound(Infinity), bound(null)], ['≤ 5 ms', '≤ 1.25 s', 'more than a minute', '–']);
});

test('a chart has gaps where a reading is missing, and nothing older than its span', () => {
  const at = (t: number, value: number) => ({ t, value });
  assert.equal(chartLine([at(0, 9), at(50, 0), at(100, 10)], 100, 200, 40), 'M0.0 4.0L100.0 40.0L200.0 0.0');
  assert.equal(chartLine([at(0, 9), at(50, 10), null, at(140, 5), at(150, 5)], 100, 200, 40), 'M0.0 0.0M180.0 20.0L200.0 20.0');
  assert.equal(chartLine([], 100, 200, 40), '');
  assert.equal(chartLine([at(0, 0)], 100, 200, 40), 'M200.0 40.0');
  assert.deepEqual([short(0), short(0.25), short(12.4), short(3100), bytes(150_000_000), bytes(3 * 2 ** 30)], ['0', '0.3', '12', '3.1k', '143 MiB', '3.0 GiB']);
});

test('one reading has what came since the start, and the size of the store', () => {
  const reading = read(page(100, 5, 'apiserver_storage_size_bytes{storage_cluster_id="etcd-0"} 4096\nkstore_storage_live_bytes 1024\n'), 0);
  assert.deepEqual([requestsUpTo(reading), reading.storage, reading.live], [103, 4096, 1024]);
  assert.deepEqual(verbsUpTo(reading)[0], { verb: 'GET', number: 102, rate: 102, p50: 0.005, p99: 0.1 });
  assert.equal(bytes(4096), '4 KiB');
});

test('writes of a window are counted in equal parts', () => {
  assert.deepEqual(writeRates([0, 100, 1_900, 2_000], 2), [{ t: 1_000, value: 2 }, { t: 2_000, value: 2 }]);
  assert.deepEqual([writeRates([5, 5], 3), writeRates([], 3)], [[], []]);
});
