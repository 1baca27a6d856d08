//! Creates a data directory from versions at revisions that the caller chooses: the history of another store, as far as it is known.
//!
//! Like a restore, the manifest is written last: an interrupted creation leaves no store, and the next one clears it.

use super::contents::HIGHEST;
use super::restore::{Batch, RestoreError, RestoreReport, Target, write_error};
use crate::disk::real::{DirLock, RealDisk};
use crate::disk::{Disk, private};
use crate::types::record::{Record, RecordKey, RecordKind};
use crate::types::state::DurableState;
use crate::{EngineKind, KeyValue, Revision, Stamp};
use bytes::Bytes;
use kstore_nondet::Rng;
use std::path::Path;
use std::sync::Arc;

/// Writes the versions of a new store, in the order of their revisions. Versions of one revision are of one commit, in the order in which
/// they are written.
pub struct VersionWriter<'a, 'p> {
    batch: Batch<'a, 'p>,
    /// The newest record.
    last: RecordKey,
    records: u64,
}

impl std::fmt::Debug for VersionWriter<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VersionWriter").field("last", &self.last).finish_non_exhaustive()
    }
}

impl VersionWriter<'_, '_> {
    /// Writes a version of a key. A store has no lease that no [`Stamp`] may name: its lease is left out.
    ///
    /// # Errors
    /// [`RestoreError::Order`] if the revision is older than that of the version before, or no store has it.
    pub fn put(&mut self, key: &[u8], value: &[u8], stamp: Stamp) -> Result<(), RestoreError> {
        let record = self.next(stamp.mod_revision)?;
        let stamp = Stamp { lease: crate::LeaseId::NONE, ..stamp };
        self.add(record, RecordKind::Put, KeyValue::new(key, value, stamp).encoded().clone());
        Ok(())
    }

    /// Writes the deletion of a key.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn delete(&mut self, key: &[u8], revision: Revision) -> Result<(), RestoreError> {
        let record = self.next(revision)?;
        self.add(record, RecordKind::Delete, KeyValue::tombstone(key, revision).encoded().clone());
        Ok(())
    }

    /// Writes the note of a revision that has a version already.
    ///
    /// # Errors
    /// [`RestoreError::Order`] if the revision is newer than all versions, or no store has it.
    pub fn note(&mut self, revision: Revision, note: Bytes) -> Result<(), RestoreError> {
        if revision < Revision::FIRST || revision > self.last.main {
            return Err(RestoreError::Order(revision));
        }
        self.add(RecordKey::note(revision), RecordKind::Note, note);
        Ok(())
    }

    /// The newest revision that has a version; zero if none has.
    pub fn revision(&self) -> Revision {
        self.last.main
    }

    fn next(&mut self, revision: Revision) -> Result<RecordKey, RestoreError> {
        if revision < Revision::FIRST.max(self.last.main) || revision > HIGHEST {
            return Err(RestoreError::Order(revision));
        }
        let sub = if revision == self.last.main && self.records > 0 { self.last.sub + 1 } else { 0 };
        self.last = RecordKey::new(revision, sub);
        self.records += 1;
        Ok(self.last)
    }

    fn add(&mut self, key: RecordKey, kind: RecordKind, bytes: Bytes) {
        // The first error is kept, and returned at the end.
        let _ = self.batch.add(Record { key, kind, bytes });
    }
}

/// Creates a store in `dir` with the versions that `fill` writes. `fill` returns the oldest readable revision: history before it is not
/// complete. The newest revision is that of the last version. On return the directory is durable, complete and unlocked; after an error
/// it has no store.
///
/// # Errors
/// That of `fill`; or the directory has a store already, or cannot be written.
pub fn create<E: From<RestoreError>>(
    dir: &Path,
    engine: EngineKind,
    rng: &Rng,
    fill: impl FnOnce(&mut VersionWriter<'_, '_>) -> Result<Revision, E>,
) -> Result<RestoreReport, E> {
    if engine == EngineKind::Memory {
        return Err(RestoreError::NoEngine.into());
    }
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    disk.create_dir(dir).map_err(|source| write_error(dir, source))?;
    let _lock = DirLock::take(dir).map_err(RestoreError::from)?;
    private::protect(dir).map_err(RestoreError::from)?;
    let target = Target { disk: &disk, dir, engine, rng };
    target.prepare()?;
    let created = write(&target, fill);
    if created.is_err() {
        // Best effort: remaining files are marked, and the next restore clears them.
        let _ = target.clear();
    }
    created
}

fn write<E: From<RestoreError>>(
    target: &Target<'_>,
    fill: impl FnOnce(&mut VersionWriter<'_, '_>) -> Result<Revision, E>,
) -> Result<RestoreReport, E> {
    let cluster = target.begin_log()?;
    let engine = target.new_engine()?;
    let mut no_progress = |_, _| {};
    let batch = Batch::new(&*engine, 0, &mut no_progress);
    let mut writer = VersionWriter { batch, last: RecordKey::new(Revision(0), 0), records: 0 };
    let compacted = fill(&mut writer)?;
    let VersionWriter { batch, last, records } = writer;
    batch.finish().map_err(|error| target.engine_error(error))?;
    let token = engine.seal().map_err(|error| target.engine_error(error))?;
    engine.close();
    let revision = last.main.max(Revision::FIRST).max(compacted);
    let state = DurableState { revision, compacted, ..DurableState::default() };
    target.complete(cluster, state, token.to_vec())?;
    Ok(RestoreReport { revision, compacted, records, leases: 0, users_left_out: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maintenance::verify;
    use crate::tests::conformance::block_on_real;
    use crate::{Config, KeyRange, LeaseId, Range, Store};
    use kstore_nondet::Nondet;

    fn stamp(revision: i64, created: i64, version: i64) -> Stamp {
        let (create_revision, mod_revision) = (Revision(created), Revision(revision));
        Stamp { create_revision, mod_revision, version, lease: LeaseId(7) }
    }

    #[test]
    fn a_new_store_has_the_versions_at_their_revisions_and_goes_on_after_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let fill = |writer: &mut VersionWriter<'_, '_>| {
            writer.put(b"a", b"1", stamp(500, 400, 3))?;
            writer.put(b"b", b"1", stamp(500, 500, 1))?;
            writer.put(b"c", b"1", stamp(501, 501, 1))?;
            writer.delete(b"b", Revision(502))?;
            writer.put(b"a", b"2", stamp(503, 400, 4))?;
            writer.note(Revision(503), "who".into())?;
            assert!(matches!(writer.put(b"d", b"", stamp(502, 1, 1)), Err(RestoreError::Order(_))));
            assert!(matches!(writer.note(Revision(504), "x".into()), Err(RestoreError::Order(_))));
            Ok::<_, RestoreError>(Revision(501))
        };
        let rng = Rng::seeded(1);
        let report = create(&path, EngineKind::Segments, &rng, fill).unwrap();
        assert_eq!((report.revision, report.compacted, report.records), (Revision(503), Revision(501), 5));
        assert_eq!(verify(&path, &mut |_, _| {}).unwrap().problems, []);
        let again = create(&path, EngineKind::Segments, &rng, fill);
        assert!(matches!(again, Err(RestoreError::Occupied { .. })));
        block_on_real(async {
            let store = Store::open(Config::durable(&path), Nondet::simulated(1)).await.unwrap();
            let keys = |revision| {
                let found = store.range(&Range::new(KeyRange::all()).at(Revision(revision))).unwrap().kvs;
                found.iter().map(|kv| (kv.key().to_vec(), kv.mod_revision().0)).collect::<Vec<_>>()
            };
            assert_eq!(keys(501), [(b"a".to_vec(), 500), (b"b".to_vec(), 500), (b"c".to_vec(), 501)]);
            assert_eq!(keys(0), [(b"a".to_vec(), 503), (b"c".to_vec(), 501)]);
            assert_eq!(store.note(Revision(503)).as_deref(), Some(&b"who"[..]));
            let newest = store.get("a").unwrap().unwrap();
            assert_eq!((newest.version(), newest.lease()), (4, LeaseId::NONE));
            assert_eq!(store.put("d", "1").await.unwrap(), Revision(504));
            store.close().await;
        });
    }

    #[test]
    fn a_failed_creation_leaves_no_store_and_can_be_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let fails = create(dir.path(), EngineKind::Segments, &Rng::seeded(1), |writer| {
            writer.put(b"a", b"1", stamp(2, 2, 1))?;
            Err::<Revision, _>(RestoreError::Bump(9))
        });
        assert!(matches!(fails, Err(RestoreError::Bump(9))));
        let report = create(dir.path(), EngineKind::Segments, &Rng::seeded(1), |writer| {
            writer.put(b"b", b"1", stamp(9, 9, 1))?;
            Ok::<_, RestoreError>(Revision(9))
        });
        assert_eq!(report.unwrap().revision, Revision(9));
    }
}
