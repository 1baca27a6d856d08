//! Measures how long a store takes to open, and how much memory its keys take: `restart load DIR KEYS`, then `restart
//! open DIR`. A quick measurement, not a benchmark.

use kstore_nondet::Nondet;
use kstore_store::{Config, KeyRange, Op, Range, Store, Txn};
use tokio::time::Instant;

/// Bytes per value.
const VALUE: usize = 300;

/// Keys per transaction.
const BATCH: usize = 128;

/// Resident memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Processor time of this process in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // User and system time in hundredths of a second.
    fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The key of a number, in scrambled order.
fn key(number: usize) -> String {
    let shuffled = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("/registry/pods/default/pod-{shuffled:016x}")
}

async fn load(dir: &str, keys: usize) {
    let store = Store::open(Config::durable(dir), Nondet::real()).await.expect("the store opens");
    for first in (0..keys).step_by(BATCH) {
        let ops =
            (first..keys.min(first + BATCH)).map(|at| Op::put(key(at), vec![b'a' + (at % 26) as u8; VALUE]));
        store.txn(Txn::of(ops.collect())).await.expect("the store takes the write");
    }
    println!("loaded: {} MiB resident", resident() >> 10);
    store.close().await;
}

async fn open(dir: &str) {
    const PAGES: u32 = 10_000;
    const GETS: u32 = 200_000;
    let start = Instant::now();
    let store = Store::open(Config::durable(dir), Nondet::real()).await.expect("the store opens");
    let (opened, used) = (start.elapsed().as_secs_f64(), cpu());
    println!("opened in {opened:.2} s with {used:.2} s of a processor, {} MiB resident", resident() >> 10);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    println!("a second later: {} MiB resident", resident() >> 10);
    let start = cpu();
    for _ in 0..PAGES {
        let page = store.range(&Range::new(KeyRange::prefix("/registry/")).limit(500)).expect("reads");
        assert!(page.count >= 500, "there are more keys than a page has");
    }
    println!("a page of 500 with its count: {:.1} µs", (cpu() - start) * 1e6 / f64::from(PAGES));
    let start = cpu();
    let mut found = 0;
    for number in 0..GETS as usize {
        found += store.range(&Range::key(key(number))).expect("reads").kvs.len();
    }
    println!("get: {:.2} µs ({found} found)", (cpu() - start) * 1e6 / f64::from(GETS));
    store.close().await;
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["load", dir, keys] => load(dir, keys.parse().expect("a number of keys")).await,
        ["open", dir] => open(dir).await,
        _ => eprintln!("restart load DIR KEYS | restart open DIR"),
    }
}
