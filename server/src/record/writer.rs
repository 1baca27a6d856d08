//! [`RecordingWriter`]: adds commits of a source to a store, at the revisions of the source.

use super::limits::{SYNCED_BYTES, SYNCED_REVISIONS};
use super::merge::{Change, Commit};
use crate::import::{Author, ImportedObject, LEFT_OUT_KEY, USER};
use anyhow::{Context as _, ensure};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use kstore_registry::provenance::Note;
use kstore_store::{Config, Op, Revision, Store, Txn};
use std::collections::BTreeMap;
use std::mem;
use std::path::Path;
use std::time::Duration;

/// Writes the commits of a source into a store at the source's revisions. For a revision without a recorded change the writer changes a
/// key that the API server does not show, since a store has no gaps in its revisions.
pub(super) struct RecordingWriter {
    store: Store,
    /// The newest revision, that of transactions in `batch` included.
    revision: i64,
    /// When the recording began.
    began: Timestamp,
    /// The objects that exist, with the authors of their newest states.
    authors: BTreeMap<String, Option<Author>>,
    batch: Vec<Txn>,
    batch_bytes: usize,
    totals: RecordedTotals,
}

/// What was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordedTotals {
    /// Number of changes of objects.
    pub(super) changes: u64,
    /// Number of commits with a change that has an older revision in the source.
    pub(super) late: u64,
    /// Bytes of keys and values.
    pub(super) bytes: u64,
    /// The newest revision.
    pub(super) revision: i64,
}

impl RecordingWriter {
    /// Opens the store of an import, whose objects have these authors.
    ///
    /// # Errors
    /// The store cannot be opened.
    pub(super) async fn open(
        dir: &Path,
        authors: BTreeMap<String, Option<Author>>,
        nondet: &kstore_nondet::Nondet,
    ) -> anyhow::Result<Self> {
        let mut config = Config::durable(dir);
        // A revision of the source is one transaction, however large. The recording is bounded by --max-bytes.
        config.limits.txn_ops = usize::MAX;
        config.limits.request_bytes += 2 * SYNCED_BYTES;
        config.limits.quota_bytes = None;
        let store = Store::open(config, nondet.clone()).await.context("cannot open the recording")?;
        let revision = store.revision().0;
        let totals = RecordedTotals { revision, ..RecordedTotals::default() };
        let began = nondet.clock.now();
        Ok(Self { store, revision, began, authors, batch: Vec::new(), batch_bytes: 0, totals })
    }

    /// What was recorded so far.
    pub(super) fn totals(&self) -> RecordedTotals {
        self.totals
    }

    /// Writes commits, whose revisions ascend. They are durable on return.
    ///
    /// # Errors
    /// The store refuses a write: there is no space left, or it has stopped.
    pub(super) async fn write(&mut self, commits: Vec<Commit<ImportedObject>>) -> anyhow::Result<()> {
        for commit in commits {
            self.add(commit).await?;
        }
        self.sync().await
    }

    /// Closes the store.
    pub(super) async fn close(self) {
        self.store.close().await;
    }

    async fn add(&mut self, commit: Commit<ImportedObject>) -> anyhow::Result<()> {
        let Commit { revision, changes, arrival, is_late, gap } = commit;
        let mut note = self.note(&changes, arrival, is_late, gap);
        let (mut ops, mut bytes) = (Vec::new(), 0);
        let mut at = revision;
        for (key, change) in changes {
            let op = match change {
                Change::Put(ImportedObject { bytes: object, author }) => {
                    bytes += key.len() + object.len();
                    self.authors.insert(key.clone(), author);
                    Op::put(key, object)
                }
                // The store would take no revision for it.
                Change::Delete if self.authors.remove(&key).is_none() => continue,
                Change::Delete => Op::delete(key),
            };
            ops.push(op);
            self.totals.changes += 1;
            if bytes >= SYNCED_BYTES {
                self.push(at, mem::take(&mut ops), note.clone(), mem::take(&mut bytes)).await?;
                at = self.revision + 1;
                note.time_us += 1;
            }
        }
        if !ops.is_empty() {
            self.totals.late += u64::from(is_late);
            self.push(at, ops, note, bytes).await?;
        }
        Ok(())
    }

    /// Adds a transaction at a revision, or behind the newest one if that is later.
    async fn push(&mut self, revision: i64, ops: Vec<Op>, note: Note, bytes: usize) -> anyhow::Result<()> {
        while self.revision + 1 < revision {
            self.revision += 1;
            self.batch.push(Txn::of(vec![Op::put(LEFT_OUT_KEY, Bytes::new())]));
            self.sync_if_full().await?;
        }
        self.revision += 1;
        self.batch.push(Txn::of(ops).noted(note.encode()));
        self.batch_bytes += bytes;
        self.totals.bytes += bytes as u64;
        self.sync_if_full().await
    }

    async fn sync_if_full(&mut self) -> anyhow::Result<()> {
        match self.batch.len() >= SYNCED_REVISIONS || self.batch_bytes >= SYNCED_BYTES {
            true => self.sync().await,
            false => Ok(()),
        }
    }

    /// Commits the batch.
    async fn sync(&mut self) -> anyhow::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.batch_bytes = 0;
        let results =
            self.store.each(mem::take(&mut self.batch)).await.context("cannot write the recording")?;
        for result in results {
            result.context("cannot write the recording")?;
        }
        let stored = self.store.revision();
        ensure!(
            stored == Revision(self.revision),
            "the recording is at revision {stored}, not at {}",
            self.revision
        );
        self.totals.revision = self.revision;
        Ok(())
    }

    /// The provenance of a commit: when it arrived, and what its first object says about its writer.
    fn note(
        &self,
        changes: &BTreeMap<String, Change<ImportedObject>>,
        arrival: Duration,
        is_late: bool,
        gap: Option<Duration>,
    ) -> Note {
        let (agent, verb) = match (gap, changes.iter().next()) {
            (Some(gap), _) => {
                (format!("kstore-record (gap {} s)", gap.as_secs().max(1)), "relist".to_owned())
            }
            (None, Some((key, Change::Put(object)))) => self.writer(key, object.author.as_ref()),
            (None, _) => (String::new(), "delete".to_owned()),
        };
        let agent = if is_late { format!("{agent} (late)").trim_start().to_owned() } else { agent };
        let since = SignedDuration::try_from(arrival).unwrap_or(SignedDuration::MAX);
        let time = self.began.checked_add(since).unwrap_or(Timestamp::MAX);
        Note { user: USER.to_owned(), agent, verb, causes: Vec::new(), time_us: time.as_microsecond() }
    }

    /// Field manager and verb of a new state. A state that names the author of the one before was written without managed fields.
    fn writer(&self, key: &str, author: Option<&Author>) -> (String, String) {
        let before = self.authors.get(key);
        match (before, author) {
            (None, author) => {
                (author.map(|author| author.manager.clone()).unwrap_or_default(), "create".to_owned())
            }
            (Some(before), Some(author)) if before.as_ref() != Some(author) => {
                (author.manager.clone(), author.verb.clone())
            }
            (Some(_), _) => (String::new(), "update".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_nondet::Nondet;
    use kstore_store::maintenance;
    use kstore_store::{EngineKind, KeyRange, Range, Stamp};
    use serde_json::json;

    fn object(name: &str, manager: &str, time: &str) -> ImportedObject {
        let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "managedFields": [
            {"manager": manager, "operation": "Update", "time": time}]}});
        ImportedObject { bytes: value.to_string().into_bytes(), author: Author::of(&value) }
    }

    fn commit(revision: i64, changes: Vec<(&str, Change<ImportedObject>)>) -> Commit<ImportedObject> {
        let changes = changes.into_iter().map(|(key, change)| (key.to_owned(), change)).collect();
        Commit { revision, changes, arrival: Duration::from_secs(2), is_late: false, gap: None }
    }

    #[tokio::test]
    async fn commits_have_the_revisions_of_the_source_and_what_objects_say_about_their_writers() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, nondet) = (folder.path().join("data"), Nondet::simulated(1));
        let first = object("a", "kubectl", "2026-01-01T00:00:00Z");
        let stamp =
            Stamp { create_revision: Revision(7), mod_revision: Revision(7), version: 1, ..Stamp::default() };
        maintenance::create(&dir, EngineKind::Segments, &nondet.rng, |writer| {
            writer.put(b"/registry/a", &first.bytes, stamp)?;
            Ok::<_, maintenance::RestoreError>(Revision(7))
        })
        .unwrap();
        let authors = BTreeMap::from([("/registry/a".to_owned(), first.author.clone())]);
        let mut writer = RecordingWriter::open(&dir, authors, &nondet).await.unwrap();
        let scaled = object("a", "hpa", "2026-01-01T00:00:05Z");
        let new = object("b", "kubectl", "2026-01-01T00:00:06Z");
        let mut gap = commit(20, vec![("/registry/b", Change::Delete)]);
        gap.gap = Some(Duration::from_secs(12));
        let mut late = commit(21, vec![("/registry/a", Change::Put(scaled.clone()))]);
        late.is_late = true;
        writer
            .write(vec![
                commit(10, vec![("/registry/a", Change::Put(scaled))]),
                commit(11, vec![("/registry/unknown", Change::Delete)]),
                commit(
                    14,
                    vec![("/registry/b", Change::Put(new.clone())), ("/registry/c", Change::Put(new))],
                ),
                gap,
                late,
                commit(22, vec![("/registry/a", Change::Delete)]),
            ])
            .await
            .unwrap();
        let totals = writer.totals();
        assert_eq!((totals.changes, totals.late, totals.revision), (6, 1, 22));
        writer.close().await;
        assert_eq!(maintenance::verify(&dir, &mut |_, _| {}).unwrap().problems, []);

        let store = Store::open(Config::durable(&dir), nondet).await.unwrap();
        let keys = |revision| {
            let found = store.range(&Range::new(KeyRange::all()).at(Revision(revision))).unwrap().kvs;
            let own = found.iter().filter(|kv| kv.key() != LEFT_OUT_KEY);
            own.map(|kv| format!("{}@{}", String::from_utf8_lossy(kv.key()), kv.mod_revision()))
                .collect::<Vec<_>>()
        };
        assert_eq!(keys(9), ["/registry/a@7"]);
        assert_eq!(keys(13), ["/registry/a@10"]);
        assert_eq!(keys(19), ["/registry/a@10", "/registry/b@14", "/registry/c@14"]);
        assert_eq!(keys(21), ["/registry/a@21", "/registry/c@14"]);
        assert_eq!(keys(22), ["/registry/c@14"]);
        let written = |revision| {
            let note = Note::decode(&store.note(Revision(revision)).unwrap()).unwrap();
            format!("{} {} by {}", note.verb, note.user, note.agent)
        };
        assert_eq!(written(10), "update unknown by hpa");
        assert_eq!(written(14), "create unknown by kubectl");
        assert_eq!(written(20), "relist unknown by kstore-record (gap 12 s)");
        assert_eq!(written(21), "update unknown by (late)", "it names the author of the state before");
        assert_eq!(written(22), "delete unknown by ");
        assert_eq!(store.note(Revision(12)), None);
        store.close().await;
    }
}
