//! Objects over a storage: the kinds that are served, the watch cache, and reads and guarded writes of one object.
//!
//! It knows objects, keys, revisions and races; who asks, and whether that is allowed, is decided in the crates above.

pub mod cache;
pub mod conversion;
pub mod decode;
pub mod derived;
pub mod entry;
pub mod error;
pub mod fence;
pub mod kinds;
pub mod lookup;
pub mod outbound;
pub mod persistent_map;
pub mod pod_dialer;
pub mod provenance;
pub mod registry;
pub mod request;
pub mod selectors;
pub mod service_ranges;
pub mod stage;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, reason = "only tests use it")]
pub mod testing;
pub mod undecided;
pub mod user;
