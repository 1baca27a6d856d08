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
pub mod access_file;
pub mod admission;
mod agent;
mod aggregator;
mod anonymous_slots;
mod answer_kind;
pub mod audit;
pub mod authn;
pub mod authz;
mod body_budget;
pub mod bootstrap;
pub mod cache;
pub mod config;
mod conversion;
mod decode;
mod definitions;
mod derived;
pub mod encryption;
pub mod entry;
pub mod error;
mod expiring;
mod fairness;
pub mod fence;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod grpc;
mod identity;
pub mod kinds;
pub mod limits;
pub mod listed_certificate;
mod load_progress;
pub mod lookup;
mod memory_shares;
pub mod metrics;
mod observed_body;
pub mod outbound;
pub mod peer;
mod percent_encoding;
mod persistent_index;
mod persistent_map;
pub mod pipeline;
pub mod plain_http;
mod pod_references;
pub mod provenance;
#[cfg(test)]
mod racing;
mod rate_limited;
pub mod registry;
pub mod reloaded;
pub mod request;
mod resource_location;
pub mod rest;
mod restart;
mod selectors;
pub mod series;
mod server;
mod service_ranges;
mod single_flight;
pub mod stage;
pub mod storage;
pub mod storage_key;
#[cfg(test)]
mod testing;
pub mod token;
pub mod tunnel;
mod undecided;
mod unread_body;
pub mod user;
pub mod version;

pub use bootstrap::FRONT_PROXY;
pub use config::ServerConfig;
pub use fairness::RequestLimits;
pub use load_progress::LoadProgress;
pub use pipeline::{AnnotationCheck, LocalComponents};
pub use restart::TaskRestarts;
pub use server::{ApiServer, CallerRecord, InProcess, ServerImage, StartError, WatchBatches};
pub use service_ranges::{ServiceRanges, ServiceRangesError};
pub use undecided::Undecided;
