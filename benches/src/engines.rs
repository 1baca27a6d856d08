//! The store's two engines side by side, on the workload that decided the default: load, reads of old
//! versions, a watch of all history, rounds of rewriting and compacting everything with the disk space, and
//! reopening.

use crate::{machine, usage};
use anyhow::Context;
use kstore_nondet::Nondet;
use kstore_store::{Config, EngineKind, KeyRange, Limits, Op, Range, Revision, Store, Txn, WatchRequest};
use std::path::Path;
use tokio::time::Instant;

/// Number of keys, each with a value of [`VALUE`] bytes.
const KEYS: usize = 30_000;
const VALUE: usize = 300;
/// Keys written by one transaction.
const BATCH: usize = 100;
/// Number of reads of old versions.
const READS: usize = 10_000;
/// Number of times that everything is rewritten and compacted.
const ROUNDS: u8 = 10;

/// The results of one engine.
struct EngineResult {
    name: &'static str,
    load: f64,
    load_cpu: f64,
    get: f64,
    scan: f64,
    rewrite: f64,
    /// Bytes of the engine's files and of all files, after each round and at the end.
    space: Vec<(u64, u64)>,
    reopen: f64,
}

/// Measures both engines and prints a table in Markdown.
///
/// # Errors
///
/// A store fails an operation.
pub fn main() -> anyhow::Result<()> {
    println!("{}\n", machine::describe());
    let data = (KEYS * VALUE) as f64;
    println!("{KEYS} keys of {VALUE} bytes; space is bytes on disk by bytes of values\n");
    println!(
        "| engine | load keys/s | CPU s per M | get old/s | history events/s | rewrite keys/s | \
         engine ÷ data after round 1, 5, {ROUNDS}, closed | all ÷ data, closed | reopen s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    for (name, engine) in [("segments", EngineKind::Segments), ("sled", EngineKind::Sled)] {
        let row = runtime.block_on(measure(name, engine))?;
        let part = |bytes: u64| bytes as f64 / data;
        let (engine, all) = row.space.last().context("there is a last round")?;
        println!(
            "| {} | {:.0} | {:.1} | {:.0} | {:.0} | {:.0} | {:.1}, {:.1}, {:.1}, {:.1} | {:.1} | {:.2} |",
            row.name,
            row.load,
            row.load_cpu,
            row.get,
            row.scan,
            row.rewrite,
            part(row.space[0].0),
            part(row.space[4].0),
            part(row.space[usize::from(ROUNDS) - 1].0),
            part(*engine),
            part(*all),
            row.reopen
        );
    }
    Ok(())
}

/// A configuration with a small window of recent changes, so that reads reach the engine.
fn config(dir: &Path, engine: EngineKind) -> Config {
    let limits = Limits { window_revisions: 1, ..Limits::default() };
    Config { engine, limits, ..Config::durable(dir) }
}

async fn measure(name: &'static str, engine: EngineKind) -> anyhow::Result<EngineResult> {
    let dir = tempfile::tempdir()?;
    let config = config(&dir.path().join("data"), engine);
    let store = Store::open(config.clone(), Nondet::real()).await?;
    let (start, cpu) = (Instant::now(), processor()?);
    write_all(&store, 0).await?;
    // A round trip through the engine: all earlier writes have reached it.
    store.compact_physical(Revision(1)).await?;
    let load = KEYS as f64 / start.elapsed().as_secs_f64();
    let load_cpu = (processor()? - cpu) * 1e6 / KEYS as f64;
    let old = store.revision();
    write_all(&store, 1).await?;
    let get = gets(&store, old)?;
    let scan = scan(&store).await?;
    let (mut space, start) = (Vec::new(), Instant::now());
    for round in 0..ROUNDS {
        write_all(&store, round).await?;
        store.compact_physical(store.revision()).await?;
        space.push(occupied(&config)?);
    }
    let rewrite = KEYS as f64 * f64::from(ROUNDS) / start.elapsed().as_secs_f64();
    store.close().await;
    space.push(occupied(&config)?);
    let start = Instant::now();
    let store = Store::open(config, Nondet::real()).await?;
    let reopen = start.elapsed().as_secs_f64();
    anyhow::ensure!(
        store.range(&Range::new(KeyRange::all()).limit(1))?.count == KEYS as i64,
        "keys are missing"
    );
    store.close().await;
    Ok(EngineResult { name, load, load_cpu, get, scan, rewrite, space, reopen })
}

fn processor() -> anyhow::Result<f64> {
    usage::processor_seconds(std::process::id())
}

/// Bytes on disk of the engine, and of all files.
fn occupied(config: &Config) -> anyhow::Result<(u64, u64)> {
    let dir = config.dir.as_ref().context("the store has a directory")?;
    Ok((usage::disk_bytes(&dir.join("engine"))?, usage::disk_bytes(dir)?))
}

/// The key of a number; the order of keys is not that of the numbers.
fn key(number: usize) -> String {
    format!("/registry/pods/default/pod-{:016x}", (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

async fn write_all(store: &Store, round: u8) -> anyhow::Result<()> {
    for first in (0..KEYS).step_by(BATCH) {
        let put = |at| Op::put(key(at), vec![b'a' + round; VALUE]);
        store.txn(Txn::of((first..first + BATCH).map(put).collect())).await?;
    }
    Ok(())
}

/// Old versions read per second.
fn gets(store: &Store, old: Revision) -> anyhow::Result<f64> {
    let start = Instant::now();
    for at in 0..READS {
        let found = store.range(&Range::key(key(at * 7 % KEYS)).at(old))?;
        anyhow::ensure!(found.kvs.len() == 1, "an old version is missing");
    }
    Ok(READS as f64 / start.elapsed().as_secs_f64())
}

/// Events of the whole history per second.
async fn scan(store: &Store) -> anyhow::Result<f64> {
    let (start, last) = (Instant::now(), store.revision());
    let mut watcher = store.watch(WatchRequest::new(KeyRange::all()).from(Revision(2)))?;
    let mut events = 0;
    loop {
        let batch = watcher.next().await.context("the watch continues")??;
        events += batch.events.len();
        if batch.revision >= last {
            return Ok(events as f64 / start.elapsed().as_secs_f64());
        }
    }
}
