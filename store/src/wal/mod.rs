//! The write-ahead log, which is the source of truth: a write is acknowledged after its sync here, and all other state
//! can be rebuilt from it.
//!
//! `append` writes, `replay` reads and decides what a crash left, `around_damage` reads what is left of a damaged log,
//! `segment` manages the files, `find` searches single records. `codec` has the encoding.
//!
//! Promise: what was synced is replayed after any crash, in order and complete, or the damage is reported. Never here:
//! whose turn it is to write (`runtime::log`), and the meaning of a commit.

mod append;
mod around_damage;
mod find;
mod replay;
mod segment;
#[cfg(test)]
mod tests;

pub(crate) use append::Wal;
pub(crate) use around_damage::{SegmentBytes, read_around_damage};
pub(crate) use find::find;
pub(crate) use replay::{ReplayResult, replay};
pub(crate) use segment::WalSegments;
