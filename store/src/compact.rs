//! Physical compaction: removes from index and engine what no read at or above the compacted revision can reach. Derived
//! work: it may be repeated or interrupted at any point, also by a crash.

use std::collections::BTreeSet;

use crate::Revision;
use crate::core::Core;
use crate::engine::EngineError;

/// Removes what `revision` (already published as compacted) makes unreachable. The engine has every record up to it.
/// Takes the write lock for one chunk of keys at a time.
pub(crate) fn compact(core: &Core, revision: Revision) -> Result<(), EngineError> {
    let mut removed = Vec::new();
    let mut from = Some(Box::default());
    while let Some(key) = from {
        from = core.visible_mut().index.compact(&key, revision, &mut removed);
        core.pins.remove(&removed)?;
        core.metrics.compacted_versions.add(removed.len() as u64);
        removed.clear();
    }
    let reach = core.stored().next().min(revision);
    core.visible_mut().window.drop_below(reach);
    compact_notes(core, revision)
}

/// Drops the notes of revisions below `revision` that made none of the versions still kept and created no key that still
/// exists.
fn compact_notes(core: &Core, revision: Revision) -> Result<(), EngineError> {
    let mut unused: BTreeSet<Revision> = core.engine.notes_below(revision)?.into_iter().collect();
    let mut from = Some(Box::default());
    while let Some(key) = from.filter(|_| !unused.is_empty()) {
        let visible = core.visible();
        let (entries, next) = visible.index.step(&key);
        for entry in entries {
            for used in entry.revisions() {
                unused.remove(&used);
            }
            unused.remove(&entry.newest().kv.create_revision());
        }
        from = next;
    }
    let keys: Vec<_> = unused.into_iter().map(crate::commit::RecordKey::note).collect();
    core.pins.remove(&keys)
}
