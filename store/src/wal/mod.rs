//! The log: the truth. What has been synced here is acknowledged; all else can be made again from it.
//!
//! `append` writes, `replay` reads and judges what a crash left, `segment` manages the files. The bytes are `codec`'s.

mod append;
mod find;
mod replay;
mod segment;
#[cfg(test)]
mod tests;

pub(crate) use append::Wal;
pub(crate) use find::find;
pub(crate) use replay::{Replayed, replay};
pub(crate) use segment::Segments;
