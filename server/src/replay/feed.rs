//! Writes the revisions of a recording into a store, at their times.

use super::pace::Pace;
use anyhow::{Context as _, bail, ensure};
use jiff::{SignedDuration, Timestamp};
use kstore_access::authz::bootstrap;
use kstore_api::{kind, meta, object};
use kstore_nondet::{Clock, ClockOffset, Nondet};
use kstore_registry::provenance::Note;
use kstore_store::maintenance;
use kstore_store::{EngineKind, EventKind, KeyRange, Op, Range, Revision, Stamp, Store, Txn, WatchRequest};
use std::path::Path;
use tokio::time::Instant;

/// Role and binding of administrators, by which the server's kubeconfig may read everything.
const ADMINISTRATOR: &str = "cluster-admin";

/// Creates a store with the state of a recording at a revision, and nothing before it. Role and binding of administrators are added where
/// the recording has none.
///
/// # Errors
/// The recording cannot be read, or the directory cannot be written.
pub(super) fn create_state(source: &Store, at: Revision, dir: &Path, nondet: &Nondet) -> anyhow::Result<()> {
    let found = source.range(&Range::new(KeyRange::all()).at(at)).context("cannot read the recording")?;
    let mut versions = found.kvs;
    versions.sort_by_key(|kv| kv.mod_revision());
    let is_known = |key: &str| versions.iter().any(|kv| kv.key() == key.as_bytes());
    let added: Vec<_> = administrator(nondet).into_iter().filter(|(key, _)| !is_known(key)).collect();
    let created = maintenance::create(dir, EngineKind::Segments, &nondet.rng, |writer| {
        for kv in &versions {
            writer.put(kv.key(), kv.value(), kv.stamp())?;
        }
        for (key, value) in &added {
            let stamp = Stamp { create_revision: at, mod_revision: at, version: 1, ..Stamp::default() };
            writer.put(key.as_bytes(), value, stamp)?;
        }
        if let Some(note) = source.note(at).filter(|_| writer.revision() == at) {
            writer.note(at, note)?;
        }
        Ok::<_, maintenance::RestoreError>(at)
    });
    created.map(drop).context("cannot create the store of the replay")
}

/// Keys and stored forms of the role and the binding of administrators.
fn administrator(nondet: &Nondet) -> Vec<(String, Vec<u8>)> {
    let objects = bootstrap::objects().into_iter().filter(|object| meta::name(object) == ADMINISTRATOR);
    let stored = |mut value| {
        let row = kind::lookup_api_version(object::api_version(&value), object::kind(&value))?;
        meta::fill_system_fields(&mut value, &nondet.rng.uuid(), nondet.clock.now());
        Some((row.storage_row().storage_key("", meta::name(&value)), object::encode_stored(&value)))
    };
    objects.filter_map(stored).collect()
}

/// The wall time of a cluster that is replayed.
pub(super) struct ReplayClock {
    offset: ClockOffset,
    nondet: Nondet,
}

impl ReplayClock {
    /// A clock that shows a recorded time, in microseconds since 1970, and goes on from there.
    pub(super) fn at(time_us: Option<i64>) -> Self {
        let (real, offset) = (Nondet::real(), ClockOffset::new());
        let time = time_us.and_then(|time_us| Timestamp::from_microsecond(time_us).ok());
        let time = time.unwrap_or_else(|| real.clock.now());
        // A clock of the system does not leap; this one goes on with tokio's, which nothing pauses.
        let clock = Clock::simulated_from(time).with_offset(&offset);
        Self { offset, nondet: Nondet { clock, ..real } }
    }

    /// The clock for a server.
    pub(super) fn nondet(&self) -> &Nondet {
        &self.nondet
    }

    /// Lets the clock show at least this recorded time. It does not go back.
    fn reach(&self, time_us: i64) {
        let Ok(time) = Timestamp::from_microsecond(time_us) else { return };
        let by = time.duration_since(self.nondet.clock.now());
        if by > SignedDuration::ZERO {
            self.offset.leap(by);
        }
    }
}

/// Writes the revisions after `from`, which `target` has, up to another one, each when it is due.
///
/// # Errors
/// The recording cannot be read, or has a gap; or the target cannot be written.
pub(super) async fn feed(
    source: &Store,
    (from, upto): (Revision, Revision),
    (target, clock): (&Store, &ReplayClock),
    mut pace: Pace,
) -> anyhow::Result<()> {
    let (began, mut last) = (Instant::now(), from);
    if last >= upto {
        return Ok(());
    }
    let request = WatchRequest::new(KeyRange::all()).from(last.next());
    let mut changes = source.watch(request).context("cannot read the recording")?;
    while last < upto {
        let Some(batch) = changes.next().await else { bail!("the recording was closed") };
        let batch = batch.context("cannot read the recording")?;
        let note = batch.events.iter().find_map(|event| event.note.clone());
        let note = note.or_else(|| source.note(batch.revision));
        let time_us = note.as_deref().and_then(Note::decode).map(|note| note.time_us);
        if let Some(due) = began.checked_add(pace.next(time_us)).filter(|due| *due > Instant::now()) {
            tokio::time::sleep_until(due).await;
        }
        let ops = batch.events.iter().map(|event| match event.kind {
            EventKind::Put => Op::put(event.kv.key().to_vec(), event.kv.value_bytes()),
            EventKind::Delete => Op::delete(event.kv.key().to_vec()),
        });
        let txn = Txn { note, ..Txn::of(ops.collect()) };
        if let Some(time_us) = time_us {
            clock.reach(time_us);
        }
        target.txn(txn).await.context("cannot write a recorded revision")?;
        last = target.revision();
        ensure!(last == batch.revision, "recorded revision {} became {last}", batch.revision);
    }
    Ok(())
}

/// When a revision of a recording was written, in microseconds since 1970: the time of its note, or of the oldest note after it.
pub(super) fn time_of(source: &Store, revision: Revision) -> Option<i64> {
    /// Revisions that are looked at.
    const NEAR: i64 = 10_000;
    let newest = source.revision().0.min(revision.0.saturating_add(NEAR));
    let note = |at: i64| source.note(Revision(at)).and_then(|note| Note::decode(&note));
    (revision.0..=newest).find_map(note).map(|note| note.time_us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ReplaySpeed;
    use kstore_store::Config;

    fn contents(store: &Store, at: Revision) -> Vec<(Vec<u8>, Vec<u8>, i64)> {
        let found = store.range(&Range::new(KeyRange::all()).at(at)).unwrap().kvs;
        found.iter().map(|kv| (kv.key().to_vec(), kv.value().to_vec(), kv.mod_revision().0)).collect()
    }

    fn note(seconds: i64) -> bytes::Bytes {
        let text = |text: &str| text.to_owned();
        let time_us = 1_767_225_600_000_000 + seconds * 1_000_000;
        Note { user: text("u"), agent: text("a"), verb: text("update"), causes: Vec::new(), time_us }.encode()
    }

    #[tokio::test(start_paused = true)]
    async fn a_replay_has_the_states_and_notes_of_the_recording_at_its_times() {
        let folder = tempfile::tempdir().unwrap();
        let source = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
        for (seconds, value) in ["one", "two", "three"].into_iter().enumerate() {
            let seconds = i64::try_from(seconds).unwrap() * 10;
            source
                .txn(Txn::of(vec![Op::put("a", value), Op::put(value, "x")]).noted(note(seconds)))
                .await
                .unwrap();
        }
        source.put("unnoted", "x").await.unwrap();
        source.txn(Txn::of(vec![Op::delete("two"), Op::put("a", "four")]).noted(note(60))).await.unwrap();
        let (from, upto) = (Revision(3), source.revision());
        assert_eq!(upto, Revision(6));
        let begin_us = time_of(&source, from);
        let clock = ReplayClock::at(begin_us);
        create_state(&source, from, folder.path(), clock.nondet()).unwrap();
        let target = Store::open(Config::durable(folder.path()), clock.nondet().clone()).await.unwrap();
        assert_eq!((target.revision(), target.compacted()), (from, from));
        let added: Vec<_> = contents(&target, from).into_iter().map(|(key, ..)| key).collect();
        assert!(added.iter().any(|key| key == b"/registry/clusterrolebindings/cluster-admin"), "{added:?}");
        let began = Instant::now();
        let pace = Pace::new(ReplaySpeed::Times(10.0), begin_us);
        feed(&source, (from, upto), (&target, &clock), pace).await.unwrap();
        assert!(
            began.elapsed() >= std::time::Duration::from_secs(5),
            "50 recorded seconds at ten times their speed"
        );
        assert!(clock.nondet().clock.now().as_microsecond() >= 1_767_225_660_000_000);
        let is_recorded = |entry: &(Vec<u8>, Vec<u8>, i64)| !entry.0.ends_with(ADMINISTRATOR.as_bytes());
        for revision in 3..=6 {
            let revision = Revision(revision);
            let replayed: Vec<_> = contents(&target, revision).into_iter().filter(is_recorded).collect();
            assert_eq!(replayed, contents(&source, revision), "{revision}");
            assert_eq!(target.note(revision), source.note(revision), "{revision}");
        }
        target.close().await;
        source.close().await;
    }
}
