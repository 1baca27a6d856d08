//! Reads the history in a snapshot file without restoring it.

use super::contents;
use super::snapshot_file::{SnapshotFile, SnapshotFileError};
use crate::types::record::RecordKind;
use crate::{KeyValue, Revision};
use bytes::Bytes;
use std::path::Path;

/// A record in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotRecord {
    /// A version of a key.
    Version(KeyValue),
    /// The deletion of a key: its key and revision.
    Deletion(KeyValue),
    /// The note of a revision, which only a snapshot of kstore has.
    Note(Revision, Bytes),
}

/// What a snapshot has beside its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHistory {
    /// The newest revision.
    pub revision: Revision,
    /// The oldest readable revision.
    pub compacted: Revision,
    /// Number of leases.
    pub leases: u64,
    /// Whether there are users and roles, from an etcd with authentication.
    pub has_users: bool,
}

/// Reads a snapshot of kstore or etcd, and passes its versions and deletions in the order of revisions to `visit`, then its notes. The
/// records of one revision are in the order in which they were written. An error of `visit` ends the read.
///
/// # Errors
/// The file cannot be read, is no snapshot, is damaged, or has no checksum and `unchecked` is not set. The text of an error of `visit` is
/// part of [`SnapshotFileError::Malformed`].
pub fn read_snapshot(
    path: &Path,
    unchecked: bool,
    visit: &mut dyn FnMut(SnapshotRecord) -> Result<(), String>,
) -> Result<SnapshotHistory, SnapshotFileError> {
    let file = SnapshotFile::open(path, unchecked)?;
    let contents = contents::read(&file, &mut |record| {
        let version = || KeyValue::decode(record.bytes.clone()).ok_or("a version is malformed");
        visit(match record.kind {
            RecordKind::Put => SnapshotRecord::Version(version()?),
            RecordKind::Delete => SnapshotRecord::Deletion(version()?),
            RecordKind::Note => SnapshotRecord::Note(record.key.main, record.bytes),
        })
    })?;
    let (state, has_users) = (contents.state, contents.has_users);
    let (revision, compacted, leases) = (state.revision, state.compacted, state.leases.len() as u64);
    Ok(SnapshotHistory { revision, compacted, leases, has_users })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::conformance::block_on;
    use crate::tests::samples::{fill, image, memory};
    use sha2::{Digest as _, Sha256};

    #[test]
    fn a_snapshot_is_read_in_the_order_of_its_revisions_and_refused_if_it_is_damaged() {
        let (bytes, revision, compacted) = block_on(async {
            let store = memory().await;
            fill(&store).await;
            (image(&store), store.revision(), store.compacted())
        });
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("snapshot.db");
        std::fs::write(&path, &bytes).unwrap();
        let read = |unchecked| {
            let mut records = Vec::new();
            let history = read_snapshot(&path, unchecked, &mut |record| {
                records.push(record);
                Ok(())
            });
            history.map(|history| (history, records))
        };
        assert!(matches!(read(false), Err(SnapshotFileError::NoChecksum { .. })));
        let (history, records) = read(true).unwrap();
        assert_eq!((history.revision, history.compacted), (revision, compacted));
        let revisions: Vec<Revision> = records
            .iter()
            .filter_map(|record| match record {
                SnapshotRecord::Version(kv) | SnapshotRecord::Deletion(kv) => Some(kv.mod_revision()),
                SnapshotRecord::Note(..) => None,
            })
            .collect();
        assert!(!revisions.is_empty() && revisions.is_sorted());
        assert!(records.iter().any(|record| matches!(record, SnapshotRecord::Deletion(_))));
        let mut checked = bytes.clone();
        checked.extend_from_slice(&Sha256::digest(&bytes));
        std::fs::write(&path, &checked).unwrap();
        assert_eq!(read(false).unwrap(), (history, records));
        checked[5000] ^= 1;
        std::fs::write(&path, &checked).unwrap();
        assert!(matches!(read(false), Err(SnapshotFileError::WrongChecksum { .. })));
        std::fs::write(&path, &bytes).unwrap();
        let refused = read_snapshot(&path, true, &mut |_| Err("enough".into())).unwrap_err();
        assert!(refused.to_string().contains("enough"), "{refused}");
    }
}
