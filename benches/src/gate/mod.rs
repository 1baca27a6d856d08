//! The headline results of the release binary, each with a bound. `cargo bench -p kstore-benches --bench
//! gate` prints a table and fails if a bound is missed; `-- custom` measures one part (`cluster`, `dropin`, `custom`, `history` or
//! `etcd`; `headline` is five rows of `cluster`). Bounds are about three times the goals: they detect a start that takes seconds instead
//! of milliseconds, and tolerate a busy machine. Close comparisons are in the benches `figures` and `etcd`, for people.

mod custom;
mod history;
mod result;
mod table;

use crate::binary::Binary;
use crate::process::Storage;
use crate::rollout::Creator;
use crate::spread::Spread;
use crate::{churn, costs, dropin, etcd, get, idle, list, machine, rollout, startup, watchers, writes};
use anyhow::ensure;
use result::{Limit, Quantity, Unit};
use std::path::Path;
use table::Table;

/// The flag that also writes the table into the page of results.
const WRITE_RESULTS: &str = "--write-results";

/// The page of results, from the root of the workspace.
const RESULTS_PAGE: &str = "docs/results.md";

/// Builds the release binary if needed, measures, prints the table, and with `--write-results` writes it into
/// docs/results.md.
///
/// # Errors
///
/// A bound is missed, or a binary cannot be built, started or measured; or `--write-results` is given while files
/// differ from the commit, so that the table would name code that was not measured. The table is printed first, with a
/// row for each failed measurement; docs/results.md is then not changed.
pub fn main() -> anyhow::Result<()> {
    let write_results = std::env::args().any(|argument| argument == WRITE_RESULTS);
    // Cargo adds flags such as `--bench`.
    let parts: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_named = |part: &str| parts.iter().any(|word| word == part);
    let is_measured = |part: &str| parts.is_empty() || is_named(part);
    ensure!(parts.is_empty() || !write_results, "{WRITE_RESULTS} wants the whole table");
    let commit = machine::commit();
    ensure!(
        !write_results || machine::is_clean(&commit),
        "{WRITE_RESULTS} wants a checkout without changes, so that the table can name its commit; this is {commit}"
    );
    let binary = Binary::server()?;
    let mut table = Table::new(machine::describe(), commit);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("{}", table.heading());
    // One thread drives the load beside etcd, to leave the machine to the servers.
    let single = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if is_named("headline") {
        runtime.block_on(headline(&binary, &mut table));
    }
    if is_measured("cluster") {
        runtime.block_on(cluster(&binary, &mut table));
    }
    if is_measured("dropin") {
        runtime.block_on(drop_in(&binary, &mut table));
    }
    if is_measured("custom") {
        runtime.block_on(custom::measure(&binary, &mut table));
    }
    if is_measured("history") {
        runtime.block_on(history::measure(&binary, &mut table));
    }
    if is_measured("etcd") {
        single.block_on(beside_etcd(&binary, &mut table));
    }
    let failed = table.failed();
    ensure!(failed.is_empty(), "{} of the measurements above failed: {}", failed.len(), failed.join("; "));
    if write_results {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
        table.write_into(&root.join(RESULTS_PAGE))?;
    }
    let missed = table.missed();
    ensure!(missed.is_empty(), "{} of the bounds above missed: {}", missed.len(), missed.join("; "));
    Ok(())
}

fn milliseconds(spread: &Spread, quantile: f64) -> f64 {
    spread.quantile(quantile).as_secs_f64() * 1e3
}

/// Measures a whole cluster and its apiserver. A failed measurement becomes a row, and the others still run.
async fn cluster(binary: &Binary, table: &mut Table) {
    for storage in [Storage::Memory, Storage::Disk] {
        starts(binary, storage, table).await;
    }
    rest(binary, table).await;
    for storage in [Storage::Memory, Storage::Disk] {
        memory_after_work(binary, storage, table).await;
    }
    for storage in [Storage::Memory, Storage::Disk] {
        replicas(binary, storage, table).await;
    }
    pods(binary, table).await;
    for storage in [Storage::Memory, Storage::Disk] {
        creates(binary, storage, table).await;
    }
    let what = "creates with a service account's token, beside those with a certificate";
    if let Some(ratio) = table.succeeded(what, writes::with_token(binary).await) {
        table.add(Quantity::new(what, Unit::Times, Limit::at_least(0.9, 0.6)), ratio);
    }
    reads(binary, table).await;
    let what = "events to 1,000 watchers of all pods";
    if let Some(flood) = table.succeeded(what, watchers::flooded(binary).await) {
        let limit = Limit::at_least(270_000.0, 50_000.0);
        table.add(Quantity::new(what, Unit::PerSecond, limit), flood.events as f64 / flood.seconds);
    }
}

/// Factor by which the bounds of [`headline`] are laxer: the gate measures a program that is not optimised, and in whatever company.
const UNOPTIMISED: f64 = 4.0;

/// Measures what a user meets first, in less than a minute: a start, a rollout, creates, a GET and a LIST.
async fn headline(binary: &Binary, table: &mut Table) {
    table.relax_bounds(UNOPTIMISED);
    starts(binary, Storage::Memory, table).await;
    replicas(binary, Storage::Memory, table).await;
    creates(binary, Storage::Disk, table).await;
    reads(binary, table).await;
}

async fn starts(binary: &Binary, storage: Storage, table: &mut Table) {
    let storage_name = storage.name();
    let aim = if storage == Storage::Memory { 100.0 } else { 300.0 };
    let starts = startup::starts(binary, storage).await;
    let Some(starts) = table.succeeded(&format!("start and end, {storage_name}"), starts) else { return };
    let limit = Limit::at_most(aim, 3.0 * aim);
    let what = format!("start to `/readyz`, {storage_name}, new keys, median");
    table.add(Quantity::new(what, Unit::Milliseconds, limit), milliseconds(&starts.ready, 0.5));
    let limit = Limit::at_most(200.0, 600.0);
    let what = format!("SIGTERM to exit, {storage_name}, worst");
    table.add(Quantity::new(what, Unit::Milliseconds, limit), milliseconds(&starts.ended, 1.0));
}

async fn rest(binary: &Binary, table: &mut Table) {
    let rest = idle::rest(binary, Storage::Memory).await;
    let Some(rest) = table.succeeded("idle, all components, 3 nodes", rest) else { return };
    let limit = Limit::at_most(60.0, 90.0);
    let what = "idle, all components, 3 nodes: resident memory";
    table.add(Quantity::new(what, Unit::Mebibytes, limit), rest.resident);
    let limit = Limit::at_most(1.0, 3.0);
    let what = "idle, all components, 3 nodes: processor";
    table.add(Quantity::new(what, Unit::PercentOfCore, limit), rest.processor);
}

async fn memory_after_work(binary: &Binary, storage: Storage, table: &mut Table) {
    let what = format!("resident memory a minute after a busy time, {}", storage.name());
    let memory = churn::memory(binary, storage).await;
    let Some(memory) = table.succeeded(&what, memory) else { return };
    let what = format!("{what}, beside {:.0} MiB before and {:.0} MiB then", memory.idle, memory.busy);
    table.add(Quantity::new(what, Unit::Times, Limit::at_most(1.5, 4.5)), memory.calm / memory.idle);
}

async fn replicas(binary: &Binary, storage: Storage, table: &mut Table) {
    let what = format!("500 replicas, from one POST to all Ready, {}, median", storage.name());
    let times = rollout::times(binary, storage, Creator::Request).await;
    let Some(times) = table.succeeded(&what, times) else { return };
    let limit = Limit::at_most(1500.0, 4500.0);
    table.add(Quantity::new(what, Unit::Milliseconds, limit), milliseconds(&times, 0.5));
}

/// Measures the processor time of a pod's life: unlike elapsed time, other programs on the machine hardly change it.
async fn pods(binary: &Binary, table: &mut Table) {
    let what = "5,000 pods on 100 nodes, in memory: processor time of the server per pod";
    let costs = costs::pods(binary, costs::dense(Storage::Memory)).await;
    let Some(costs) = table.succeeded(what, costs) else { return };
    for (stage, aim, bound, seconds) in
        [("until ready", 0.7, 2.5, costs.ready), ("until deleted", 0.8, 3.0, costs.deleted)]
    {
        let limit = Limit::at_most(aim, bound);
        table.add(Quantity::new(format!("{what}, {stage}"), Unit::Milliseconds, limit), seconds * 1e3);
    }
}

async fn creates(binary: &Binary, storage: Storage, table: &mut Table) {
    let what = format!("creates of 1 KiB ConfigMaps, 64 connections, {}", storage.name());
    let Some(rate) = table.succeeded(&what, writes::rate(binary, storage).await) else { return };
    table.add(Quantity::new(what, Unit::PerSecond, Limit::at_least(6000.0, 2000.0)), rate);
}

async fn reads(binary: &Binary, table: &mut Table) {
    let what = "GET of one object, 64 connections";
    if let Some(rate) = table.succeeded(what, get::rate(binary).await) {
        table.add(Quantity::new(what, Unit::PerSecond, Limit::at_least(13_500.0, 4_500.0)), rate);
    }
    let what = "LIST of 10,000 pods as JSON, median";
    if let Some(list) = table.succeeded(what, list::json(binary).await) {
        let limit = Limit::at_most(65.0, 200.0);
        table.add(Quantity::new(what, Unit::Milliseconds, limit), milliseconds(&list, 0.5));
    }
}

/// Measures what a test harness waits for: the start of the drop-in programs, and of a cluster around one command.
async fn drop_in(binary: &Binary, table: &mut Table) {
    for (what, times) in [
        (
            "drop-in etcd and kube-apiserver, from launch to 200 of `/healthz`, median",
            dropin::pairs(binary).await,
        ),
        ("`kstore-server run -- true`, median", dropin::runs(binary).await),
    ] {
        if let Some(times) = table.succeeded(what, times) {
            let limit = Limit::at_most(60.0, 240.0);
            table.add(Quantity::new(what, Unit::Milliseconds, limit), milliseconds(&times, 0.5));
        }
    }
}

/// Measures the store beside a real etcd, in turns on this machine; adds no rows without an etcd in PATH.
async fn beside_etcd(binary: &Binary, table: &mut Table) {
    let ratios = etcd::ratios(binary.clone()).await;
    let Some(ratios) = table.succeeded("the store beside etcd", ratios) else { return };
    let Some(ratios) = ratios else {
        println!("There is no etcd in PATH: the store is not compared with it.");
        return;
    };
    let what = "durable puts of 256 B, 100 clients, beside etcd";
    table.add(Quantity::new(what, Unit::Times, Limit::at_least(3.0, 1.5)), ratios.puts);
    let what = "reads of one key, 200 clients, beside etcd";
    table.add(Quantity::new(what, Unit::Times, Limit::at_least(4.0, 2.0)), ratios.gets);
}
