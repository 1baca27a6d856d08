//! Simulated nodes: they register, heartbeat and run pods without containers. A plain client of the API: every write
//! passes the same API as kubectl's.
//!
//! The judgement is pure: [`pod`] and [`node`] are states with a `step`, [`status`] computes what the API shows,
//! [`probe`] what probes find, [`runtime`] is the seam below which containers would run (`runtime::sim` makes them up from
//! [`config`] and the annotations of [`behavior`]). The crate `kstore-container-sim` has what a simulated container
//! contains: shell, files and logs; `stream` connects them to the tunnel of the apiserver. `manager` is the one edge: it feeds one informer
//! of pods and one of nodes into the machines of all nodes and writes what they say.

/// The README, whose example compiles as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod affinity;
pub mod amounts;
mod api_server;
pub mod backoff;
pub mod behavior;
pub mod chosen_run;
pub mod config;
pub mod cri_socket;
mod device;
mod dns;
mod dns_message;
pub mod egress;
pub mod execution;
mod expansion;
mod fault;
mod group;
mod identities;
pub mod image;
pub mod known_image;
mod limits;
mod load;
mod manager;
pub mod network_policy;
pub mod node;
pub mod plan;
pub mod pod;
mod pod_behavior;
mod pod_certificate;
pub mod pod_object;
mod pressure;
pub mod probe;
mod process_end;
pub mod program;
mod record;
mod registry_login;
pub mod runtime;
pub mod service;
pub mod shape;
pub mod sim_api;
pub mod status;
mod stream;
mod time;
mod usage;

pub use api_server::ApiServerListener;
pub use config::{Config, CriNode, Machine};
pub use fault::{FaultChange, FaultError, FaultPhase, FaultReport, Handle, NodeFault};
pub use identities::Identities;
pub use manager::run::{Simulator, run};
