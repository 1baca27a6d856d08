//! The scheduler, a plain client of the API: filter, score, assume, bind.
//!
//! The scheduler watches pods and nodes, decides for each pending pod on which node it runs, and writes that
//! through the binding subresource. The decision ([`decide`], [`plugins`], [`preemption`], [`queue`], [`cache`]) is
//! synchronous and pure. The input and output (`run`, `bind`) decides nothing.

/// The README, whose example compiles as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod action;
pub mod affinity;
pub mod attempt;
mod bind;
pub mod budgets;
pub mod cache;
pub mod change;
pub mod configuration;
pub mod decide;
mod device_waits;
pub mod devices;
pub mod disk;
pub mod event;
pub mod explain;
pub mod extender;
mod extender_client;
pub mod fields;
mod filter;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod gates;
pub mod images;
pub mod inventory;
pub mod limits;
mod metrics;
pub mod namespace;
pub mod node;
mod node_order;
pub mod node_state;
pub mod nominations;
pub mod plugin;
pub mod plugins;
pub mod pod;
pub mod pod_constraints;
pub mod pod_groups;
mod pod_writes;
pub mod ports;
pub mod preemption;
pub mod profile;
mod quantity;
pub mod queue;
pub mod reconstruct;
#[cfg(test)]
mod reference;
pub mod resources;
mod run;
pub mod sampling;
pub mod scheduler;
pub mod score;
pub mod shadow;
pub mod snapshot;
pub mod spread_constraints;
pub mod storage;
pub mod suggest;
pub mod taint;
pub mod tally;
#[cfg(test)]
mod testing;
pub mod verdict;
mod volume_waits;
pub mod workloads;
pub mod zones;

pub use configuration::{Configuration, ConfigurationError};
pub use extender_client::check_extenders;
pub use gates::Gates;
pub use plugins::Registry;
pub use profile::{Profile, Profiles};
pub use queue::PodBackoff;
pub use run::{Config, run};
