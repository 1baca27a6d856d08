//! Tests of the store as a whole, through its public door. `model` is the dumb judge, `actions` what is done to both,
//! `conformance` the suite that every engine and durability passes.

mod actions;
mod concurrent;
pub(crate) mod conformance;
mod crash;
mod hash;
mod leases;
mod model;
mod pipeline;
mod process;
mod quota;
mod regressions;
mod rules;
mod semantics;
mod watch;
