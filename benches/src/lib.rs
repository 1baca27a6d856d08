//! Measurements of the release binary from outside: a process, a TLS connection, a watch. No microbenchmarks,
//! and no verdict: a result is printed beside its bound, for people to compare.
//!
//! Each measurement is one file, whose comment defines it. [`main`] runs those whose names contain a word of
//! the command line: `cargo bench -p kstore-benches --bench figures -- startup idle`. [`etcd`] compares the
//! store with a real etcd; `informer` compares a cache in this process with kube-rs's; [`gate`] checks the
//! headline results against bounds; `simulation` runs clusters in this process under virtual time; `ratchet`
//! counts instructions and compares them with accepted counts.

mod account;
mod admission;
mod answers;
mod binary;
pub mod cel;
mod churn;
mod connection;
mod controllers;
mod cost_meter;
mod costs;
mod custom;
mod dropin;
pub mod engines;
pub mod etcd;
#[cfg(any(feature = "informer", feature = "ratchet"))]
mod feed;
mod flood;
mod foreign;
pub mod gate;
mod get;
mod history;
mod idle;
#[cfg(feature = "informer")]
pub mod informer;
mod lab;
mod limits;
mod list;
mod machine;
mod many;
mod measurement;
mod pod_connections;
mod pods;
mod process;
#[cfg(feature = "ratchet")]
pub mod ratchet;
mod rollout;
#[cfg(feature = "simulation")]
pub mod simulation;
mod spread;
mod startup;
mod sync;
mod usage;
mod versions;
mod watchers;
mod writes;

use measurement::Measurement;
use process::Storage;
use std::pin::Pin;

type Outcome = Pin<Box<dyn Future<Output = anyhow::Result<Vec<Measurement>>>>>;

/// Builds the release binary if needed, measures, and prints a table in Markdown.
///
/// # Errors
///
/// The binary cannot be built or fails a measurement.
pub fn main() -> anyhow::Result<()> {
    // Cargo adds flags such as `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let binary = binary::Binary::server()?;
    println!("{}\n", machine::describe());
    println!("{}", measurement::HEAD);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        for (name, measure) in measurements(&binary) {
            if words.is_empty() || words.iter().any(|word| name.contains(word.as_str())) {
                for measurement in measure.await? {
                    println!("{measurement}");
                }
            }
        }
        Ok(())
    })
}

/// All measurements, in the order of the table. Each starts its servers when its turn comes.
fn measurements(binary: &binary::Binary) -> Vec<(&'static str, Outcome)> {
    let b = || binary.clone();
    vec![
        ("startup memory", Box::pin(startup::measure(b(), Storage::Memory))),
        ("startup disk", Box::pin(startup::measure(b(), Storage::Disk))),
        ("versions", Box::pin(versions::measure(b()))),
        ("dropin", Box::pin(dropin::measure(b()))),
        ("idle memory", Box::pin(idle::measure(b(), Storage::Memory))),
        ("idle disk", Box::pin(idle::measure(b(), Storage::Disk))),
        ("rollout memory", Box::pin(rollout::measure(b(), Storage::Memory))),
        ("rollout disk", Box::pin(rollout::measure(b(), Storage::Disk))),
        ("writes memory", Box::pin(writes::measure(b(), Storage::Memory))),
        ("writes disk", Box::pin(writes::measure(b(), Storage::Disk))),
        ("writes by the apiserver alone", Box::pin(writes::measure_alone(b()))),
        ("writes under a quota", Box::pin(writes::measure_under_quota(b()))),
        ("admission of pods", Box::pin(admission::measure(b()))),
        ("controllers", Box::pin(controllers::measure(b()))),
        ("lost nodes", Box::pin(controllers::lost_nodes(b()))),
        ("writes and the disk", Box::pin(sync::measure())),
        ("get", Box::pin(get::measure(b()))),
        ("list", Box::pin(list::measure(b()))),
        ("lab", Box::pin(lab::measure(b()))),
        ("pod connections", Box::pin(pod_connections::measure(b()))),
        ("flood", Box::pin(flood::measure(b()))),
        ("watchers of nodes", Box::pin(watchers::measure(b(), watchers::Scope::Node))),
        ("watchers of everything", Box::pin(watchers::measure(b(), watchers::Scope::Everything))),
        ("watchers flooded", Box::pin(watchers::flood(b()))),
        ("many", Box::pin(many::measure(b()))),
        ("costs of 5000 nodes", Box::pin(costs::measure(b(), costs::LARGE))),
        ("costs of 100 nodes memory", Box::pin(costs::measure(b(), costs::dense(Storage::Memory)))),
        ("costs of 100 nodes disk", Box::pin(costs::measure(b(), costs::dense(Storage::Disk)))),
    ]
}
