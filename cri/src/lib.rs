//! A client of container runtimes by Kubernetes' CRI v1: sandboxes of pods, their containers, images, logs, commands and ports.
//!
//! [`plan`] is pure: values of sandboxes and containers, and the messages of the interface that they become. [`client`] makes the calls.
//! Nothing here knows an object of the API or a rule of a kubelet.

/// The README, whose example compiles as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod client;
mod error;
mod limits;
pub mod log_file;
pub mod log_line;
pub mod plan;
pub mod stream;

pub use error::RuntimeError;
