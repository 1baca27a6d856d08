//! Puts without a network: the store in this process, with 1, 64 and 1000 writers on two threads. As a
//! baseline, the disk's time for as many writes and syncs of the same size as the store's commit groups.

use super::limits::{IN_PROCESS, KEYS, VALUE_BYTES};
use super::measure::Bench;
use super::puts;
use super::request::{key, value};
use super::row::{Row, Sample};
use crate::spread::Spread;
use crate::usage::processor_seconds;
use kstore_nondet::Nondet;
use kstore_store::{Config, Op, Store, Txn};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Size of the baseline's log file, which is overwritten from its start when full.
const LOG_BYTES: u64 = 64 << 20;

/// Number and size of the store's commit groups.
struct GroupSizes {
    writes: u64,
    groups: u64,
    bytes: u64,
}

/// The rows of each number of writers.
pub(super) async fn measure(bench: Bench) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for writers in [1, 64, 1_000] {
        let measured = tokio::task::spawn_blocking(move || measure_writers(writers));
        let (sample, groups, log) = measured.await??;
        let etcd = if writers == 1_000 { puts::etcd_with_1000(&bench).await? } else { None };
        let plural = if writers == 1 { "" } else { "s" };
        let size = groups.writes / groups.groups.max(1);
        let what = format!("puts in process, {writers} writer{plural}, {size} per group (etcd: over gRPC)");
        let target = if writers == 1_000 { "≥ 10×" } else { "" };
        rows.push(Row::rates(what, target, etcd.as_ref(), &sample));
        let alone = groups.writes as f64 / log.as_secs_f64();
        rows.push(Row {
            what: format!("the log alone with the same groups, {writers} writer{plural}"),
            ours: format!("{alone:.0}/s"),
            ratio: format!("the store has {:.0} % of it", sample.rate / alone * 100.0),
            target: if writers == 1_000 { "≥ 70 %" } else { "" },
            ..Row::default()
        });
    }
    Ok(rows)
}

fn measure_writers(writers: usize) -> anyhow::Result<(Sample, GroupSizes, Duration)> {
    let dir = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (sample, groups) = runtime.block_on(put(dir.path(), writers))?;
    let log = write_groups(dir.path(), &groups)?;
    Ok((sample, groups, log))
}

async fn put(dir: &Path, writers: usize) -> anyhow::Result<(Sample, GroupSizes)> {
    let store = Store::open(Config::durable(dir.join("store")), Nondet::real()).await?;
    let (before, start) = (processor_seconds(std::process::id())?, Instant::now());
    let mut tasks = JoinSet::new();
    for n in 0..writers {
        tasks.spawn(write(store.clone(), n, start + IN_PROCESS));
    }
    let mut latencies = Vec::new();
    while let Some(task) = tasks.join_next().await {
        latencies.append(&mut task??);
    }
    let (elapsed, used) = (start.elapsed(), processor_seconds(std::process::id())? - before);
    let metrics = store.metrics();
    store.close().await;
    let writes = latencies.len();
    let groups = GroupSizes { writes: writes as u64, groups: metrics.groups, bytes: metrics.log_bytes };
    let sample = Sample {
        rate: writes as f64 / elapsed.as_secs_f64(),
        processor: used * 1e6 / writes as f64,
        latency: Some(Spread::of(latencies)),
    };
    Ok((sample, groups))
}

async fn write(store: Store, mut n: usize, until: Instant) -> anyhow::Result<Vec<Duration>> {
    let (value, mut latencies) = (value(VALUE_BYTES), Vec::new());
    let mut sent = Instant::now();
    while sent < until {
        n = n.wrapping_add(7_919);
        store.txn(Txn::of(vec![Op::put(key("puts", n % KEYS), value.clone())])).await?;
        let now = Instant::now();
        latencies.push(now - sent);
        sent = now;
    }
    Ok(latencies)
}

/// The time to write and sync these groups one after the other into a preallocated file.
fn write_groups(dir: &Path, groups: &GroupSizes) -> anyhow::Result<Duration> {
    let file = std::fs::File::create(dir.join("log"))?;
    let zeros = vec![0; 1 << 20];
    for offset in (0..LOG_BYTES).step_by(zeros.len()) {
        file.write_all_at(&zeros, offset)?;
    }
    file.sync_all()?;
    let group = vec![1; usize::try_from(groups.bytes / groups.groups.max(1))?];
    let (start, mut offset) = (Instant::now(), 0);
    for _ in 0..groups.groups {
        file.write_all_at(&group, offset)?;
        file.sync_data()?;
        offset = (offset + group.len() as u64) % (LOG_BYTES - (4 << 20));
    }
    Ok(start.elapsed())
}
