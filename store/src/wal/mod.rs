//! The write-ahead log, which is the source of truth: a write is acknowledged after its sync here, and all other state
//! can be rebuilt from it.
//!
//! `append` writes, `replay` reads and decides what a crash left, `segment` manages the files. `codec` has the
//! encoding.

mod append;
mod find;
mod replay;
mod segment;
#[cfg(test)]
mod tests;

pub(crate) use append::Wal;
pub(crate) use find::find;
pub(crate) use replay::{ReplayResult, replay};
pub(crate) use segment::WalSegments;
