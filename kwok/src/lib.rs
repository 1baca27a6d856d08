//! KWOK's Stage documents (`kwok.x-k8s.io/v1alpha1`) as they are: which stage an object follows, after which delay, and what the stage
//! then writes. Plain functions of objects, times and drawn numbers; kubelet-sim plays the stages.
//!
//! [`StageSet::read`] compiles the stages of documents, so that whatever this crate does not support is an error when it starts: templates
//! (the crate `kstore-gotemplate` with KWOK's functions), expressions of jq and of CEL.

/// The README, whose example compiles as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod document;
mod effect;
mod expression;
mod functions;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod jq;
mod limits;
mod set;
mod stage;
#[cfg(test)]
mod tests;

pub use effect::{Effect, PatchForm};
pub use functions::{Addresses, StageFunctions};
pub use set::{GROUP, Kind, Lifecycle, StageSet, TooMuchWork};
pub use stage::Stage;
