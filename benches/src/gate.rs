//! The headline results of the release binary, each held to a bound: `cargo bench -p kstore-benches --bench gate` prints a table and
//! fails if a bound is missed. The bounds are about three times the aims, so that they catch a start that takes seconds instead
//! of milliseconds, and not a busy machine. No close comparisons: those are `figures` and `etcd`, which people read.

mod result;
mod table;

use crate::binary::Binary;
use crate::process::Storage;
use crate::rollout::Creator;
use crate::spread::Spread;
use crate::{churn, etcd, get, idle, list, machine, rollout, startup, watchers, writes};
use anyhow::ensure;
use result::{Limit, Quantity, Unit};
use std::path::Path;
use table::Table;

/// The flag that also writes the table into README.md.
const WRITE_README: &str = "--write-readme";

/// Builds the release binary if needed, measures, prints the table, and with `--write-readme` writes it into README.md.
///
/// # Errors
/// If a bound is missed, or something cannot be built, started or measured. The table is printed before that.
pub fn main() -> anyhow::Result<()> {
    let write_readme = std::env::args().any(|argument| argument == WRITE_README);
    let binary = Binary::server()?;
    let mut table = Table::new(machine::describe(), machine::commit());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("{}", table.heading());
    // The load on the store beside etcd is driven by one thread: it must leave the machine to the servers.
    let single = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measured = runtime.block_on(cluster(&binary, &mut table));
    let measured = measured.and_then(|()| single.block_on(beside_etcd(&binary, &mut table)));
    measured?;
    if write_readme {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
        table.write_into(&root.join("README.md"))?;
    }
    let missed = table.missed();
    ensure!(missed.is_empty(), "{} of the bounds above missed: {}", missed.len(), missed.join("; "));
    Ok(())
}

fn milliseconds(spread: &Spread, quantile: f64) -> f64 {
    spread.quantile(quantile).as_secs_f64() * 1e3
}

/// What a whole cluster and its apiserver do.
async fn cluster(binary: &Binary, table: &mut Table) -> anyhow::Result<()> {
    for (storage, aim) in [(Storage::Memory, 100.0), (Storage::Disk, 300.0)] {
        let starts = startup::starts(binary, storage).await?;
        let place = storage.name();
        let limit = Limit::at_most(aim, 3.0 * aim);
        let ready = milliseconds(&starts.ready, 0.5);
        table.add(
            Quantity::new(
                format!("start to `/readyz`, {place}, new keys, median"),
                Unit::Milliseconds,
                limit,
            ),
            ready,
        );
        let limit = Limit::at_most(200.0, 600.0);
        let ended = milliseconds(&starts.ended, 1.0);
        table
            .add(Quantity::new(format!("SIGTERM to exit, {place}, worst"), Unit::Milliseconds, limit), ended);
    }
    let rest = idle::rest(binary, Storage::Memory).await?;
    let limit = Limit::at_most(60.0, 90.0);
    table.add(
        Quantity::new("idle, all components, 3 nodes: resident memory", Unit::Mebibytes, limit),
        rest.resident,
    );
    let limit = Limit::at_most(1.0, 3.0);
    table.add(
        Quantity::new("idle, all components, 3 nodes: processor", Unit::PercentOfCore, limit),
        rest.processor,
    );
    for storage in [Storage::Memory, Storage::Disk] {
        let memory = churn::memory(binary, storage).await?;
        let what = format!(
            "resident memory a minute after a busy time, {}, beside {:.0} MiB before and {:.0} MiB then",
            storage.name(),
            memory.idle,
            memory.busy
        );
        let limit = Limit::at_most(1.5, 4.5);
        table.add(Quantity::new(what, Unit::Times, limit), memory.calm / memory.idle);
    }
    for storage in [Storage::Memory, Storage::Disk] {
        let times = rollout::times(binary, storage, Creator::Request).await?;
        let what = format!("500 replicas, from one POST to all Ready, {}, median", storage.name());
        let limit = Limit::at_most(1500.0, 4500.0);
        table.add(Quantity::new(what, Unit::Milliseconds, limit), milliseconds(&times, 0.5));
    }
    for (storage, aim) in [(Storage::Memory, 6000.0), (Storage::Disk, 6000.0)] {
        let what = format!("creates of 1 KiB ConfigMaps, 64 connections, {}", storage.name());
        let limit = Limit::at_least(aim, aim / 3.0);
        table.add(Quantity::new(what, Unit::PerSecond, limit), writes::rate(binary, storage).await?);
    }
    let limit = Limit::at_least(13_500.0, 4_500.0);
    table.add(
        Quantity::new("GET of one object, 64 connections", Unit::PerSecond, limit),
        get::rate(binary).await?,
    );
    let list = milliseconds(&list::json(binary).await?, 0.5);
    let limit = Limit::at_most(65.0, 200.0);
    table.add(Quantity::new("LIST of 10,000 pods as JSON, median", Unit::Milliseconds, limit), list);
    let flood = watchers::flooded(binary).await?;
    let limit = Limit::at_least(270_000.0, 50_000.0);
    let rate = flood.events as f64 / flood.seconds;
    table.add(Quantity::new("events to 1,000 watchers of all pods", Unit::PerSecond, limit), rate);
    Ok(())
}

/// What the store does beside a real etcd, in turns on this machine; nothing without an etcd in PATH.
async fn beside_etcd(binary: &Binary, table: &mut Table) -> anyhow::Result<()> {
    let Some(ratios) = etcd::ratios(binary.clone()).await? else {
        println!("There is no etcd in PATH: the store is not compared with it.");
        return Ok(());
    };
    let limit = Limit::at_least(3.0, 1.5);
    table.add(
        Quantity::new("durable puts of 256 B, 100 clients, beside etcd", Unit::Times, limit),
        ratios.puts,
    );
    let limit = Limit::at_least(4.0, 2.0);
    table.add(Quantity::new("reads of one key, 200 clients, beside etcd", Unit::Times, limit), ratios.gets);
    Ok(())
}
