//! Measures transactions per second: in memory, and synced with one and with many clients; and for comparison the disk
//! alone with the same groups. A quick measurement, not a benchmark.
//!
//! `throughput [clients [transactions]]` measures one load only.

use kstore_nondet::Nondet;
use kstore_store::{Config, MetricsSnapshot, Op, Revision, Store, Txn};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// Bytes per value.
const VALUE: usize = 256;

/// Size of the file for measuring the disk: like the log's, it is filled with zeros beforehand.
const FILE: u64 = 64 << 20;

/// Creates `keys` keys, then updates them with compares, as one client.
async fn client(store: Store, client: usize, keys: usize) {
    let mut known = vec![Revision(0); keys];
    for round in 0..2 {
        for (key, expected) in known.iter_mut().enumerate() {
            let name = format!("/registry/pods/default/client-{client:04}-{key:05}");
            let value = vec![b'a' + round; VALUE];
            let result = store.txn(Txn::if_unchanged(name.clone(), *expected, Op::put(name, value))).await;
            let result = result.expect("the store takes the write");
            assert!(result.succeeded, "no other client writes the key");
            *expected = result.revision;
        }
    }
}

/// Runs clients that execute `txns` transactions in total. Returns the duration and the metrics.
async fn load(config: Config, clients: usize, txns: usize) -> (Duration, MetricsSnapshot) {
    let store = Store::open(config, Nondet::real()).await.expect("the store opens");
    let keys = txns / clients / 2;
    let start = Instant::now();
    let tasks: Vec<_> = (0..clients).map(|n| tokio::spawn(client(store.clone(), n, keys))).collect();
    for task in tasks {
        task.await.expect("a client does not panic");
    }
    let elapsed = start.elapsed();
    let metrics = store.metrics();
    store.close().await;
    (elapsed, metrics)
}

/// Copies, checksums, writes and syncs as many groups as the store did, of the same mean size.
fn disk_alone(path: &Path, metrics: &MetricsSnapshot) -> io::Result<Duration> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
    fill(&file)?;
    let records = (metrics.txns / metrics.groups.max(1)).max(1);
    let bytes = metrics.log_bytes / metrics.groups.max(1);
    let record = vec![b'r'; (bytes / records) as usize];
    let (mut group, mut offset, mut sum) = (Vec::new(), 0, 0);
    let start = Instant::now();
    for _ in 0..metrics.groups {
        group.clear();
        (0..records).for_each(|_| group.extend_from_slice(&record));
        sum ^= crc32fast::hash(&group);
        if offset + group.len() as u64 > FILE {
            offset = 0;
        }
        file.write_all_at(&group, offset)?;
        file.sync_data()?;
        offset += group.len() as u64;
    }
    let elapsed = start.elapsed();
    std::hint::black_box(sum);
    Ok(elapsed)
}

fn fill(file: &File) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    (0..FILE).step_by(zeros.len()).try_for_each(|at| file.write_all_at(&zeros, at))?;
    file.sync_all()
}

fn report(what: &str, txns: u64, elapsed: Duration) {
    let each = elapsed.as_secs_f64() / txns as f64;
    print!("{what:<24} {:>9.0} txns/s  {:>7.2} µs each", 1.0 / each, each * 1e6);
}

async fn synced(dir: &Path, clients: usize, txns: usize) -> io::Result<()> {
    let own = dir.join(clients.to_string());
    let (elapsed, metrics) = load(Config::durable(&own), clients, txns).await;
    let alone = disk_alone(&own.join("alone"), &metrics)?;
    report(&format!("synced, {clients} clients"), metrics.txns, elapsed);
    println!(
        "  {:>6} syncs, {:>5.1} to a group; the disk alone {:>9.0}/s ({:.0} %)",
        metrics.syncs,
        metrics.txns as f64 / metrics.groups as f64,
        metrics.txns as f64 / alone.as_secs_f64(),
        100.0 * alone.as_secs_f64() / elapsed.as_secs_f64(),
    );
    std::fs::remove_dir_all(&own)
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let dir = std::env::temp_dir().join(format!("kstore-throughput-{}", std::process::id()));
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().expect("arguments are numbers"));
    if let Some(clients) = args.next() {
        synced(&dir, clients, args.next().unwrap_or(200_000)).await?;
        return std::fs::remove_dir(&dir);
    }
    let (elapsed, metrics) = load(Config::memory(), 1, 100_000).await;
    report("memory, 1 client", metrics.txns, elapsed);
    println!();
    for (clients, txns) in [(1, 8_000), (64, 100_000), (1_000, 200_000)] {
        synced(&dir, clients, txns).await?;
    }
    std::fs::remove_dir(&dir)
}
