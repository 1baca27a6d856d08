//! The API server: REST and gRPC front ends, authentication, authorization, admission, registry, watch cache.
//!
//! A request passes through `server` → `rest` or `grpc` → `pipeline` → `registry` → `storage`. Changes reach
//! watchers through `storage` → `cache` → `rest` or `grpc`. The store itself is another crate. Controllers,
//! scheduler and kubelet are clients of this one.

/// The README, whose example compiles as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod access;
mod agent;
mod aggregator;
mod anonymous_slots;
mod answer_kind;
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
pub mod tunnel;
mod unread_body;

pub use config::ServerConfig;
pub use server::{ApiServer, InProcess, ServerImage, StartError, WatchBatches};
