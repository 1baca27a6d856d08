//! The API server: REST and gRPC front ends, connections, configuration, aggregation.
//!
//! A request passes through `server` → `rest` or `grpc`, and then through the crates `kstore_pipeline`, `kstore_registry` and
//! `kstore_storage`. Changes reach watchers through the storage and `kstore_registry::cache`. The store itself is another crate.
//! Controllers, scheduler and kubelet are clients of this one.

/// The README, whose example compiles as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod access;
mod agent;
mod aggregator;
mod anonymous_slots;
mod answer_kind;
pub mod attempt_source;
mod body_budget;
pub mod config;
mod definitions;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod grpc;
mod identity;
mod memory_shares;
pub mod plain_http;
pub mod rest;
mod server;
pub mod tags;
pub mod tunnel;
mod unread_body;
mod view;

pub use config::ServerConfig;
pub use server::{
    ApiServer, CallerRecord, EdgeActivity, EdgeWork, EmbedderService, InProcess, OpenSocket, OpenSockets,
    ResetAnswer, ServerImage, StartError, StreamListener, WatchBatches,
};
