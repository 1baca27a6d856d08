//! The changes of one key, read out of the history of all keys: for storages that have no index of them.

use super::{KeyVersion, KeyVersions, Raw, RawEvent, ReadError, Storage, VersionEffect};
use crate::limits::FRESH_WAIT;
use std::collections::VecDeque;

/// The revision of an empty storage: no commit has it.
const EMPTY: i64 = 1;
/// How often reading begins again because compaction has overtaken it.
const TRIES: usize = 3;

/// [`Storage::versions`] by a watch of all keys, which alone has notes and ends at a known revision.
pub(super) async fn from_history<S: Storage + ?Sized>(
    storage: &S,
    key: &str,
    before: i64,
    limit: usize,
) -> Result<KeyVersions, ReadError> {
    let (mut oldest, mut tries) = (EMPTY, 0);
    loop {
        tries += 1;
        match read(storage, key, (oldest, before), limit).await {
            Err(ReadError::Compacted { oldest: later }) if later > oldest && tries <= TRIES => oldest = later,
            done => return done,
        }
    }
}

async fn read<S: Storage + ?Sized>(
    storage: &S,
    key: &str,
    (oldest, before): (i64, i64),
    limit: usize,
) -> Result<KeyVersions, ReadError> {
    let newest = storage.revision().await?.min(before.saturating_sub(1));
    let mut history = storage.watch("", oldest).await?;
    let mut found = Newest { versions: VecDeque::new(), older: 0, limit };
    let first = if oldest > EMPTY { storage.get(key, oldest).await? } else { None };
    found.extend(first.filter(|raw| raw.revision < before).map(|raw| of_oldest(&raw)));
    let mut revision = oldest;
    while revision < newest {
        let batch = match tokio::time::timeout(FRESH_WAIT, history.next()).await {
            Ok(Some(batch)) => batch?,
            Ok(None) => return Err(ReadError::Unavailable("the storage is closed".to_owned())),
            Err(_) => return Err(ReadError::Unavailable("the history does not arrive".to_owned())),
        };
        revision = batch.revision;
        if revision <= newest {
            let event = batch.events.iter().rfind(|event| event.key == key.as_bytes());
            found.extend(event.map(|event| KeyVersion {
                revision,
                effect: effect_of(event),
                note: batch.note.clone(),
            }));
        }
    }
    Ok(KeyVersions { versions: found.versions.into_iter().rev().collect(), older: found.older })
}

fn of_oldest(raw: &Raw) -> KeyVersion {
    let effect = if raw.created == raw.revision { VersionEffect::Created } else { VersionEffect::Updated };
    KeyVersion { revision: raw.revision, effect, note: None }
}

fn effect_of(event: &RawEvent) -> VersionEffect {
    match &event.current {
        None => VersionEffect::Deleted,
        Some(raw) if raw.created == raw.revision => VersionEffect::Created,
        Some(_) => VersionEffect::Updated,
    }
}

/// The newest changes of those that were added, in order.
struct Newest {
    versions: VecDeque<KeyVersion>,
    older: usize,
    limit: usize,
}

impl Newest {
    fn extend(&mut self, version: Option<KeyVersion>) {
        self.versions.extend(version);
        while self.versions.len() > self.limit {
            self.versions.pop_front();
            self.older += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::embedded::Embedded;
    use crate::storage::{Commit, SharedStorage, Write};
    use bytes::Bytes;
    use kstore_nondet::Nondet;
    use kstore_store::{Config, Revision, Store};
    use std::sync::Arc;

    /// H1: random writes of a few keys, with compactions, beside a list of what was written.
    #[tokio::test(start_paused = true)]
    async fn the_versions_of_a_key_are_those_that_were_written_looked_up_or_read() {
        let nondet = Nondet::simulated(3);
        let store = Store::open(Config::memory(), nondet.clone()).await.unwrap();
        let storage: SharedStorage = Arc::new(Embedded::new(store.clone()));
        let keys = ["/registry/configmaps/ns/a", "/registry/configmaps/ns/a-longer", "/registry/pods/ns/a"];
        // Revision, effect and note of each change of each key.
        let mut written: Vec<Vec<KeyVersion>> = vec![Vec::new(); keys.len()];
        for step in 0..300 {
            let at = usize::try_from(nondet.rng.below(3)).unwrap();
            let exists = written[at].last().is_some_and(|last| last.effect != VersionEffect::Deleted);
            let key = keys[at].to_owned();
            let (write, effect) = match (exists, nondet.rng.below(4)) {
                (true, 0) => (Write::Delete { key }, VersionEffect::Deleted),
                (true, _) => (put(key, step), VersionEffect::Updated),
                (false, _) => (put(key, step), VersionEffect::Created),
            };
            let note = Bytes::from(format!("note {step}"));
            storage
                .commit(Commit { guards: Vec::new(), writes: vec![write], note: note.clone() })
                .await
                .unwrap();
            let revision = storage.revision().await.unwrap();
            written[at].push(KeyVersion { revision, effect, note: Some(note) });
            if step % 60 == 59 {
                let oldest = revision - i64::try_from(nondet.rng.below(30)).unwrap();
                store.compact(Revision(oldest)).await.unwrap();
                for changes in &mut written {
                    let first = changes.partition_point(|change| change.revision <= oldest);
                    let is_base = |at: &usize| changes[*at].effect != VersionEffect::Deleted;
                    let kept = first.checked_sub(1).filter(is_base).unwrap_or(first);
                    changes.drain(..kept);
                }
            }
            let before = revision + 1 - i64::try_from(nondet.rng.below(5)).unwrap();
            let limit = usize::try_from(nondet.rng.below(40)).unwrap();
            for (key, changes) in keys.iter().zip(&written) {
                let below = &changes[..changes.partition_point(|change| change.revision < before)];
                let older = below.len().saturating_sub(limit);
                let expected =
                    KeyVersions { versions: below[older..].iter().rev().cloned().collect(), older };
                let found = storage.versions(key, before, limit).await.unwrap();
                assert_eq!(without_old_notes(&found), without_old_notes(&expected), "{key} at {revision}");
                let oldest = store.compacted().0;
                let of_retained = |version: &&KeyVersion| version.revision > oldest;
                assert!(
                    found.versions.iter().filter(of_retained).all(|version| version.note.is_some()),
                    "{found:?}"
                );
                let read = from_history(&*storage, key, before, limit).await.unwrap();
                assert_eq!(without_old_notes(&read), without_old_notes(&expected), "{key} at {revision}");
            }
        }
    }

    fn put(key: String, step: usize) -> Write {
        Write::Put { key, value: Bytes::from(step.to_string()), ttl_seconds: 0 }
    }

    /// Revisions and effects alone: compaction removes the notes of superseded versions.
    fn without_old_notes(found: &KeyVersions) -> (Vec<(i64, VersionEffect)>, usize) {
        (found.versions.iter().map(|version| (version.revision, version.effect)).collect(), found.older)
    }
}
