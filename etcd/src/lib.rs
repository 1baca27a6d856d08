//! The etcd v3 gRPC façade over the store: etcd's clients talk to kstore as to a cluster of one member.
//!
//! It translates; the semantics are the store's. One file per service: `kv`, `watch`, `lease`, `maintenance`, `cluster`;
//! `auth`; `error` holds etcd's exact texts and codes, which clients match. `serve` puts them behind one port, with the `pages`
//! of HTTP; `calls` is what is true of every call; `connection` speaks HTTP, with or without TLS. Nobody is authenticated beyond TLS: who comes in can do everything. Start at [`serve()`].

mod auth;
mod calls;
mod check;
mod cluster;
mod codec;
mod connection;
mod convert;
mod error;
mod http2;
mod kv;
mod lease;
mod limits;
mod listener;
mod maintenance;
mod metrics;
mod node;
mod pages;
mod range_stream;
mod serve;
mod snapshot;
mod watch;

pub use listener::Listener;
pub use metrics::MoreMetrics;
pub use node::VERSION;
pub use serve::{Options, Unlisted, serve};

#[cfg(test)]
mod tests;
