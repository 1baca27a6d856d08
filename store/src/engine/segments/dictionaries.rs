//! [`Dictionaries`]: the dictionaries of packed records that were read last, inflated.

use super::{EngineError, Location};
use crate::codec::history::{self, HistoryEntry, PackedRecord};
use crate::codec::packed::{ENTRY_BYTES, Unpacker, dictionary_places};
use crate::disk::{File, read_full};
use crate::types::record::Record;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Dictionaries that are kept. Each has 24 KiB, and serves the records of a group, which lists and histories read one after the other.
const KEPT: usize = 64;

/// A dictionary: the number of its file, the place of its first copy there, and its content.
type KnownDictionary = (u32, u64, Arc<[u8]>);

/// The newest dictionaries, the last one first.
#[derive(Default)]
pub(super) struct Dictionaries(Mutex<VecDeque<KnownDictionary>>);

impl Dictionaries {
    /// The record of a packed entry. None if neither copy of its dictionary is intact, or the entry is not what was packed.
    pub(super) fn unpack(
        &self,
        file: &dyn File,
        location: Location,
        entry: &PackedRecord<'_>,
    ) -> Result<Option<Record>, EngineError> {
        let mut unpacker = Unpacker::default();
        let dictionary = self.find(&mut unpacker, file, location, entry)?;
        Ok(dictionary.and_then(|dictionary| unpacker.record(entry, &dictionary)))
    }

    fn find(
        &self,
        unpacker: &mut Unpacker,
        file: &dyn File,
        location: Location,
        entry: &PackedRecord<'_>,
    ) -> Result<Option<Arc<[u8]>>, EngineError> {
        let offset = u64::from(location.offset);
        let first = offset.saturating_sub(u64::from(entry.before));
        let is_own = |known: &KnownDictionary| (known.0, known.1) == (location.file, first);
        if let Some((_, _, content)) = self.0.lock().iter().find(|known| is_own(known)) {
            return Ok(Some(Arc::clone(content)));
        }
        let mut bytes = vec![0; ENTRY_BYTES];
        for place in dictionary_places(entry, offset) {
            let read = read_full(file, place, &mut bytes)?;
            let Some((HistoryEntry::Dictionary(deflated), _)) = history::read(&bytes[..read]) else {
                continue;
            };
            let Some(content) = unpacker.dictionary(deflated) else { continue };
            let content: Arc<[u8]> = content.into();
            let mut known = self.0.lock();
            known.push_front((location.file, first, Arc::clone(&content)));
            known.truncate(KEPT);
            return Ok(Some(content));
        }
        Ok(None)
    }
}
