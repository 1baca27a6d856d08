//! How the records that an engine has when it is opened get to whoever wants to know them all, reading each once. Not a scan:
//! they come in no useful order, prepared on several threads.

use super::{Engine, EngineError, RecordKind};
use crate::Revision;
use crate::commit::RecordKey;
use crate::index::Version;

/// A record met while an engine is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Met<'a> {
    pub(crate) key: RecordKey,
    pub(crate) kind: RecordKind,
    pub(crate) bytes: &'a [u8],
}

/// What became of some records: versions, each with the place of its record among them.
pub(crate) type Prepared = Vec<(u32, Version)>;

/// Makes of some records what can be made without knowing the others; on any thread. Some of them may turn out to be no
/// longer wanted.
pub(crate) type Prepare = fn(&[Met<'_>]) -> Result<Prepared, EngineError>;

/// Takes what was prepared, as far as the second argument says of a record that it is still wanted. On the caller's thread.
pub(crate) type Take<'a> = dyn FnMut(Prepared, &dyn Fn(u32) -> bool) + 'a;

/// Who reads.
pub(crate) struct Reader<'a> {
    pub(crate) prepare: Prepare,
    pub(crate) take: &'a mut Take<'a>,
}

/// Reads an engine that is open already, by scanning it.
pub(crate) fn read(engine: &dyn Engine, upto: Revision, reader: &mut Reader<'_>) -> Result<(), EngineError> {
    /// Bytes of records held at once.
    const STEP: usize = 8 << 20;
    let mut from = Revision(0);
    while from <= upto {
        let scan = engine.scan(from, upto, STEP)?;
        let met = scan.records.iter().map(|record| Met {
            key: record.key,
            kind: record.kind,
            bytes: &record.bytes,
        });
        let prepared = (reader.prepare)(&met.collect::<Vec<_>>())?;
        (reader.take)(prepared, &|_| true);
        from = scan.next;
    }
    Ok(())
}
