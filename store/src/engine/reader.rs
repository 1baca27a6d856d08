//! Reading all records of an engine once while it is opened. Unlike a scan, the records arrive in no order, and several
//! threads prepare them.

use super::{Engine, EngineError};
use crate::Revision;
use crate::mvcc::index::Version;
use crate::types::record::{RecordKey, RecordKind};

/// A record read while an engine is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadedRecord<'a> {
    pub(crate) key: RecordKey,
    pub(crate) kind: RecordKind,
    pub(crate) bytes: &'a [u8],
}

/// Prepared versions, each with the index of its record in the input.
pub(crate) type PreparedVersions = Vec<(u32, Version)>;

/// Prepares a batch of records independently of other batches, on any thread. Some of the records may turn out to be
/// removed.
pub(crate) type PrepareVersions = fn(&[LoadedRecord<'_>]) -> Result<PreparedVersions, EngineError>;

/// Consumes prepared versions on the caller's thread. The second argument tells whether a record is still live.
pub(crate) type ConsumeVersions<'a> = dyn FnMut(PreparedVersions, &dyn Fn(u32) -> bool) + 'a;

/// The callbacks that receive the records of an engine.
pub(crate) struct LoadCallbacks<'a> {
    pub(crate) prepare: PrepareVersions,
    pub(crate) take: &'a mut ConsumeVersions<'a>,
}

/// Reads an open engine by scanning it.
pub(crate) fn read(
    engine: &dyn Engine,
    upto: Revision,
    reader: &mut LoadCallbacks<'_>,
) -> Result<(), EngineError> {
    /// Bytes of records per scan.
    const STEP: usize = 8 << 20;
    let mut from = Revision(0);
    while from <= upto {
        let scan = engine.scan(from, upto, STEP)?;
        let loaded = scan.records.iter().map(|record| LoadedRecord {
            key: record.key,
            kind: record.kind,
            bytes: &record.bytes,
        });
        let prepared = (reader.prepare)(&loaded.collect::<Vec<_>>())?;
        (reader.take)(prepared, &|_| true);
        from = scan.next;
    }
    Ok(())
}
