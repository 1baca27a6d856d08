//! The lab: control of kstore's clusters over the network, for programs in any language. It moves a cluster's clock, forks clusters, takes
//! images and resets, knows when a cluster and its clients are settled, and logs requests.
//!
//! Start with [`Lab`]. A cluster runs on a thread of its own with a clock that stands still (`host`, `clock`); its listener is in real
//! time, and `bridge` connects both. `client` knows the clients, `front` serves the API, and `request` has the values that all share.
//! `PROPERTIES.md` lists what the lab guarantees and the test of each; the README says what is not there yet.

/// The README, whose example compiles as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod advance;
mod authority;
pub mod basis;
pub mod bridge;
pub mod cache;
pub mod client;
pub mod clock;
pub mod cluster;
mod error;
pub mod fault;
mod form;
mod front;
pub mod host;
mod idempotency;
pub mod legality;
pub mod limits;
pub mod log;
pub mod objects;
pub mod order;
pub mod perturb;
pub mod plan;
mod prepare;
pub mod programs;
mod registry;
mod report_file;
pub mod request;
pub mod select;
pub mod serial;
pub mod settle;
pub mod shown;
pub mod snapshot;
pub mod template;
#[cfg(test)]
mod tests;
mod values;
pub mod waits;
pub mod watch;
pub mod webhooks;
pub mod writes;

pub use authority::{Authority, AuthorityError, ClusterKeys, Credentials, FrontProxyKeys};
pub use registry::{Lab, LabConfig, LabError, MAIN, StartOptions};
pub use report_file::{ReportFileError, ReportText, report_file};
