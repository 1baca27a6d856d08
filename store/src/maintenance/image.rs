//! Reading a snapshot into an image of a store in memory.

use super::contents;
use super::snapshot_file::{SnapshotFile, SnapshotFileError};
use crate::engine::Engine;
use crate::engine::memory::MemoryEngine;
use crate::engine::reader::{self, LoadCallbacks};
use crate::recovery::rebuild::{self, Rebuild};
use crate::snapshot::bbolt::read::ReadError;
use crate::store::image::ImageParts;
use crate::txn::lease_table::LeaseTable;
use crate::{Limits, StoreImage};

/// Reads a snapshot whose checksum is right. Leases have their full time to live.
pub(super) fn read(file: &SnapshotFile) -> Result<StoreImage, SnapshotFileError> {
    let engine = MemoryEngine::default();
    let contents =
        contents::read(file, &mut |record| engine.put(&[record]).map_err(|error| error.to_string()))?;
    let mut rebuild = Rebuild::default();
    let mut take = |prepared, wanted: &dyn Fn(u32) -> bool| rebuild.take(prepared, wanted);
    let mut callbacks = LoadCallbacks { prepare: rebuild::prepare, take: &mut take };
    reader::read(&engine, contents.state.revision, &mut callbacks)
        .map_err(|error| file.malformed(ReadError::Refused(error.to_string())))?;
    let mut leases = LeaseTable::default();
    contents.state.leases.iter().for_each(|(id, ttl)| leases.grant(*id, *ttl));
    let index = rebuild.finish(&mut leases);
    let parts = ImageParts { state: contents.state, index, engine, leases };
    Ok(StoreImage::of_parts(parts, Limits::default()))
}
