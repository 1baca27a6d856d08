//! The etcd v3 gRPC API over the store: to etcd's clients, kstore is a cluster of one member.
//!
//! It translates; the store has the semantics. Each service has a file: `kv`, `watch`, `lease`, `maintenance`,
//! `cluster`, `auth`. `error` has etcd's exact texts and codes, which clients match. `serve` puts the services behind
//! one port, together with the HTTP `pages`. `calls` handles what all calls share; `connection` speaks HTTP, with or
//! without TLS, and hands it to `http2` or to the router (`service`). There is no authentication beyond TLS: every client that can connect
//! has full access. Start at [`serve()`].

/// The README, whose example compiles as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod auth;
mod budget;
mod calls;
mod check;
mod cluster;
mod codec;
mod connection;
mod connection_slots;
mod convert;
mod error;
mod http2;
mod kv;
mod large_read;
mod lease;
mod limits;
mod listener;
mod maintenance;
mod metrics;
mod node;
mod pages;
mod range_stream;
mod serve;
mod service;
mod snapshot;
mod watch;

pub use listener::Listener;
pub use metrics::ExtraMetrics;
pub use node::VERSION;
pub use serve::{EmbeddedServer, Options, serve};

#[cfg(test)]
mod tests;
