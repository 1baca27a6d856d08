//! A typed client of kstore's API over any tower service: an apiserver in the same process, or one behind
//! TLS.
//!
//! [`Client`] is the connection. [`Api`] and [`DynamicApi`] are the calls, [`Transaction`] combines several, [`Each`] sends independent
//! ones; their `source` feeds an informer. The client caches nothing and retries nothing, except where a name says so ([`on_conflict`]).
//!
//! From the bottom: `client` (the connection) → `calls` (one resource, as bytes) → `grpc` (a source of objects) → `typed`
//! and `dynamic` (types) → `apis` (the handles that a client gives) → everything that uses them, such as `manifest`.

/// The README, whose example compiles as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod apis;
mod calls;
mod client;
mod connect;
#[cfg(feature = "crd")]
pub mod crd;
mod custom;
mod discovery;
mod dynamic;
mod each;
mod error;
mod event_batches;
mod events;
mod feed;
mod finalizers;
mod grpc;
mod gvr;
mod kube_api;
mod kubeconfig;
mod lease;
pub mod limits;
pub mod manifest;
mod multi;
mod object_parts;
mod params;
mod path;
mod projected_meta;
mod rest;
mod retry;
mod service_accounts;
#[cfg(test)]
mod tests;
mod transaction;
mod tunnel;
mod typed;

pub use client::Client;
pub use connect::{ConnectError, ServerApi};
pub use custom::{Custom, CustomSpec};
pub use discovery::{DiscoveredResource, DiscoveredVersion, ServerVersion};
pub use dynamic::{Dynamic, DynamicApi, DynamicObject, Stored};
pub use each::Each;
pub use error::ApiError;
pub use events::{ClientSink, reference};
pub use grpc::Source;
pub use gvr::Gvr;
pub use kubeconfig::{Identity, Kubeconfig, KubeconfigError};
pub use lease::ClientLease;
pub use multi::{MultiSource, SourcePart};
#[doc(hidden)]
pub use object_parts::{ObjectParts, serialize_object};
pub use params::{DeleteParams, ListParams, Patch, Propagation, WatchParams};
pub use projected_meta::ProjectedMeta;
pub use rest::{RestApi, RestSource};
pub use retry::on_conflict;
pub use service_accounts::ServiceAccounts;
pub use transaction::{Check, Committed, Transaction, TransactionError};
pub use tunnel::{
    Incoming, LocalEvent, LocalReceiver, LocalSender, LogOptions, NodeStream, RefusedNode, StreamKind,
    StreamReader, StreamRequest, StreamWriter, Terminal, Tunnel, TunnelEvent,
};
pub use typed::{Api, ApiType, Kind, Obj, key_of, revision_of};
