//! Fixtures of the end-to-end tests: [`Cluster`], a whole control plane on one thread under virtual time and
//! a seed, and [`Server`], the real program as a guarded child process. The tests are in `sim/` and
//! `program/`.

/// The example of `kstore-derive`, which is no documentation test of its own crate: that is built for the compiler's side, and so would be
/// all that the example uses.
#[cfg(doctest)]
#[doc = include_str!("../../derive/README.md")]
mod derive {}

mod backing_store;
mod cluster;
mod config_map_source;
mod etcd;
mod faulty_dial;
mod faulty_proxy;
mod history;
mod https;
mod initial;
mod kube_snapshot;
pub mod manifests;
mod on_etcd;
mod panics_once;
mod ports;
mod refusals;
mod relay;
mod rest;
mod server;
mod setup;
pub mod skip;
mod switchable;
mod tls_server;
pub mod wait;
pub mod webhooks;
pub mod websocket;

pub use backing_store::{BackingStore, STORAGE, Storage};
pub use cluster::{Cluster, in_real_time, simulate};
pub use config_map_source::ConfigMapSourceFixture;
pub use etcd::{Etcd, free_port};
pub use faulty_dial::FaultyDial;
pub use faulty_proxy::{Fault, FaultyProxy};
pub use history::Change;
pub use https::{Https, parse_reply};
pub use kube_snapshot::{KubeSnapshot, NAMESPACES, PODS_OF_NODE, write_kube_snapshot};
pub use on_etcd::{OnEtcd, Pipes, etcd_config};
pub use rest::{Reply, Rest};
pub use server::{Launch, Server};
pub use setup::{KUBERNETES, Loops, Setup};
pub use switchable::Switchable;
pub use tls_server::TlsServer;
pub use webhooks::Webhooks;
