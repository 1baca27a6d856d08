//! What the end-to-end tests stand on: [`Cluster`], a whole control plane on one thread under virtual time and a seed, and
//! [`Server`], the real program under a guard. The tests themselves are in `it/`; nothing here judges.

mod cluster;
mod etcd;
mod gate;
mod ground;
mod history;
mod https;
mod line;
pub mod manifests;
mod middleman;
mod on_etcd;
mod panics_once;
mod refusals;
mod relay;
mod rest;
mod schedule;
mod server;
mod tls_server;
pub mod wait;
pub mod webhooks;
pub mod websocket;

pub use cluster::{Cluster, Loops, Setup, in_real_time, simulate};
pub use etcd::{Etcd, free_port};
pub use gate::Gate;
pub use ground::{Ground, STORAGE, Storage};
pub use history::Change;
pub use https::{Https, parse_reply};
pub use line::Line;
pub use middleman::{Middleman, Wrong};
pub use on_etcd::{OnEtcd, Pipes, etcd_config};
pub use rest::{Reply, Rest};
pub use server::{Launch, Server};
pub use tls_server::TlsServer;
pub use webhooks::Webhooks;
