//! A real etcd and kstore behind the same API, side by side: same machine, same file system, same load,
//! alternating runs.
//!
//! Each row of the table is one file, or one function of it, whose comment defines the measurement. [`main`]
//! runs the rows whose names contain a word of the command line: `cargo bench -p kstore-benches --bench etcd
//! -- puts restart`. The word `sled` selects that engine for kstore. Without an etcd in PATH its column is
//! empty.

mod cas;
mod check;
mod frame;
mod idle_watchers;
mod in_process;
mod limits;
pub(crate) mod link;
mod load;
mod measure;
mod puts;
mod ranges;
pub(crate) mod request;
mod restart;
mod rewrite;
mod row;
mod server;
mod tonic_client;
mod watchers;
mod watching;

use crate::binary::Binary;
use crate::machine;
use anyhow::Context;
use measure::Bench;
use row::Row;
use server::ServerKind;
use std::pin::Pin;

type Outcome = Pin<Box<dyn Future<Output = anyhow::Result<Vec<Row>>>>>;

/// The row that runs only when it is named, because it takes long.
const ONLY_IF_NAMED: &str = "check";

/// Builds kstore's server if needed, measures, and prints a table in Markdown.
///
/// # Errors
///
/// A server cannot be built or started, or fails a measurement.
pub fn main() -> anyhow::Result<()> {
    // Cargo adds flags such as `--bench`.
    let mut words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let sled = words.iter().any(|word| word == "sled");
    words.retain(|word| word != "sled");
    let bench =
        Bench { etcd: ServerKind::etcd(), ours: ServerKind::Kstore { binary: Binary::etcd_server()?, sled } };
    println!("{}; ours on {}\n", machine::describe(), if sled { "sled" } else { "segments" });
    if bench.etcd.is_none() {
        println!("There is no etcd in PATH: its column is empty.\n");
    }
    println!("{}", row::HEAD);
    // One thread, to leave the machine to the servers.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        for (name, measure) in rows(&bench) {
            if wanted(name, &words) {
                for row in measure.await? {
                    println!("{row}");
                }
            }
        }
        Ok(())
    })
}

/// Rates of kstore divided by etcd's, under the same load in alternating runs.
pub(crate) struct Ratios {
    /// Durable puts of 256 B by 100 clients.
    pub(crate) puts: f64,
    /// Reads of one key by 200 clients.
    pub(crate) gets: f64,
}

/// Measures `server` with the store as its only component; `None` without an etcd in PATH.
pub(crate) async fn ratios(server: Binary) -> anyhow::Result<Option<Ratios>> {
    let Some(etcd) = ServerKind::etcd() else { return Ok(None) };
    let bench = Bench { etcd: Some(etcd), ours: ServerKind::StoreAlone(server) };
    let ratio = |(etcd, ours): (Option<row::Sample>, row::Sample)| {
        anyhow::Ok(ours.rate / etcd.context("etcd is measured, too")?.rate)
    };
    let puts = ratio(bench.samples(&puts::load(100, server::Durability::Synced, "")).await?)?;
    let gets = ratio(bench.samples(&ranges::gets()).await?)?;
    Ok(Some(Ratios { puts, gets }))
}

fn wanted(name: &str, words: &[String]) -> bool {
    let named = words.iter().any(|word| name.contains(word.as_str()));
    named || (words.is_empty() && name != ONLY_IF_NAMED)
}

/// All rows, in the order of the table. Each starts its servers when its turn comes.
fn rows(bench: &Bench) -> Vec<(&'static str, Outcome)> {
    let b = || bench.clone();
    vec![
        ("puts 1", Box::pin(puts::measure(b(), 1, "≥ 1×"))),
        ("puts 100", Box::pin(puts::measure(b(), 100, "≥ 3×"))),
        ("puts 1000", Box::pin(puts::measure(b(), 1_000, "≥ 4×, p99 ≤ ¼"))),
        ("cas", Box::pin(cas::measure(b()))),
        ("get", Box::pin(ranges::one(b()))),
        ("list", Box::pin(ranges::many(b()))),
        ("page", Box::pin(ranges::page(b()))),
        ("tonic", Box::pin(tonic_client::measure(b()))),
        ("watchers", Box::pin(watchers::measure(b()))),
        ("idle", Box::pin(idle_watchers::measure(b()))),
        ("process", Box::pin(in_process::measure(b()))),
        ("restart", Box::pin(restart::measure(b()))),
        ("disk", Box::pin(rewrite::measure(b()))),
        ("relaxed 1", Box::pin(puts::relaxed(b(), 1))),
        ("relaxed 100", Box::pin(puts::relaxed(b(), 100))),
        ("relaxed 1000", Box::pin(puts::relaxed(b(), 1_000))),
        (ONLY_IF_NAMED, Box::pin(check::measure(b()))),
    ]
}
