//! Tests of the store as a whole, through its public door. `model` is the dumb judge, `actions` what is done to both,
//! `conformance` the suite that every engine and durability passes.

mod actions;
mod checked;
mod compaction;
mod concurrent;
pub(crate) mod conformance;
mod crash;
pub(crate) mod etcd;
mod hash;
mod healing;
mod leases;
mod model;
mod pipeline;
mod process;
mod quota;
pub(crate) mod samples;
mod semantics;
mod watch;
