//! Tests of the whole store through its public interface. `fuzzing::model` is the reference, `actions` the random input,
//! `conformance` the suite that every engine and durability passes.

mod actions;
mod checked;
mod compaction;
mod concurrent;
pub(crate) mod conformance;
mod crash;
mod disk_space;
mod engines;
pub(crate) mod etcd;
mod format;
mod fuzz;
mod hash;
mod healing;
mod history_bound;
mod image;
mod leases;
mod pipeline;
mod private;
mod process;
mod quota;
mod regressions;
mod rules;
pub(crate) mod samples;
mod semantics;
mod watch;
