//! Tests of the store as a whole, through its public door. `model` is the dumb judge, `actions` what is done to both,
//! `conformance` the suite that every engine and durability passes.

mod actions;
mod checked;
mod compaction;
mod concurrent;
pub(crate) mod conformance;
mod crash;
mod engines;
pub(crate) mod etcd;
mod fuzz;
mod hash;
mod healing;
mod image;
mod leases;
pub(crate) mod model;
mod pipeline;
mod private;
mod process;
mod quota;
mod regressions;
mod room;
mod rules;
pub(crate) mod samples;
mod semantics;
mod watch;
