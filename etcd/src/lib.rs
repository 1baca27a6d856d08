//! The etcd v3 gRPC façade over the store: etcd's clients talk to kstore as to a cluster of one member.
//!
//! It translates; the semantics are the store's. One file per service: `kv`, `watch`, `lease`, `maintenance`, `cluster`;
//! `error` holds etcd's exact texts and codes, which clients match. There is no authentication here, and no TLS yet: bind
//! it where only trusted clients come in. Start at [`serve()`].

mod cluster;
mod convert;
mod error;
mod kv;
mod lease;
mod limits;
mod maintenance;
mod node;
mod serve;
mod watch;

pub use serve::serve;

#[cfg(test)]
mod tests;
