//! [`History`]: which revisions are retained, and their times, which are those of the provenance notes in the storage.

use super::times::{TimeBlock, TimeIndex};
use jiff::Timestamp;
use kstore_api::status::Status;
use kstore_registry::error;
use kstore_registry::provenance::Note;
use kstore_storage::limits;
use kstore_storage::storage::{RawBatch, RawWatch, ReadError, SharedStorage};
use kstore_storage::storage_key::ROOT;
use std::time::Duration;
use tokio::sync::Mutex;

/// Revisions between two samples of the index: what one question reads from the history.
const STRIDE: i64 = 64;
/// How long one question may read the history for the index. What it has read counts for the next one.
const READING: Duration = Duration::from_secs(10);
/// Revisions before one without a note whose notes are tried for its time.
const NOTES_TRIED: i64 = 16;
/// The revision of an empty store: no commit has it.
const EMPTY: i64 = 1;

/// The times of the retained revisions. They are read when the first question comes, and each later one reads what is new.
#[derive(Default)]
pub(crate) struct History(Mutex<Option<TimeIndex>>);

/// The oldest revision whose state can be read.
///
/// # Errors
/// The storage does not answer.
pub(crate) async fn oldest(storage: &SharedStorage) -> Result<i64, Status> {
    let known = match storage.get(ROOT, EMPTY).await {
        Err(ReadError::Compacted { oldest }) => oldest,
        Ok(_) => return Ok(EMPTY),
        Err(error) => return Err(error::of_read(error)),
    };
    // A read of an external etcd does not name the compacted revision; the refusal of a watch does.
    Ok(match storage.watch(ROOT, EMPTY).await {
        Err(ReadError::Compacted { oldest }) => oldest.max(known),
        Ok(_) | Err(_) => known,
    })
}

/// The time of a revision: that of its note, else of the revision before; `None` if the notes of all of these are gone.
pub(crate) async fn time_of(storage: &SharedStorage, revision: i64) -> Option<Timestamp> {
    for revision in ((revision - NOTES_TRIED).max(EMPTY + 1)..=revision).rev() {
        let mut history = storage.watch("", revision - 1).await.ok()?;
        let batch = next(&mut *history).await.ok()?;
        if let Some(micros) = time_in(&batch).filter(|_| batch.revision == revision) {
            return Timestamp::from_microsecond(micros).ok();
        }
    }
    None
}

/// 504: the revision does not exist yet.
pub(crate) fn future(revision: i64, newest: i64) -> Status {
    let text = format!("revision {revision} does not exist yet: the newest is {newest}");
    Status::timeout("", 0).with_message(text)
}

/// 410: a state is no longer retained. `what` names it: `revision 12`.
pub(crate) async fn not_retained(storage: &SharedStorage, what: &str, now: Timestamp) -> Status {
    let oldest = match oldest(storage).await {
        Ok(oldest) => oldest,
        Err(status) => return status,
    };
    let time = time_of(storage, oldest).await;
    let time = time.map(|time| format!(" ({})", shown_time(time, now))).unwrap_or_default();
    Status::expired(format!(
        "{what} is not retained: the oldest is {oldest}{time}; a longer --history keeps more"
    ))
}

/// A time in UTC: without the date if it is that of `now`.
pub(crate) fn shown_time(time: Timestamp, now: Timestamp) -> String {
    let date = |time: Timestamp| time.strftime("%F").to_string();
    match date(time) == date(now) {
        true => time.strftime("%T").to_string(),
        false => time.strftime("%FT%TZ").to_string(),
    }
}

impl History {
    /// The newest revision whose effective time is not later than `time`; `None` if that state is not retained. `newest` is the newest
    /// revision.
    ///
    /// # Errors
    /// The storage does not answer; 503 if it takes longer to read the history.
    pub(crate) async fn state_at(
        &self,
        storage: &SharedStorage,
        newest: i64,
        time: Timestamp,
    ) -> Result<Option<i64>, Status> {
        let micros = time.as_microsecond();
        let mut index = self.0.lock().await;
        let index = read(&mut index, storage, newest).await?;
        let Some(block) = index.first_later(micros) else { return Ok(Some(newest)) };
        let oldest = oldest(storage).await?;
        let mut effective = block.after;
        let mut later = None;
        each(storage, block, oldest, |revision, time| {
            effective = effective.with(revision, time);
            if effective.micros > micros {
                later = Some(revision);
            }
            later.is_none()
        })
        .await
        .map_err(error::of_read)?;
        Ok(later.map(|later| later - 1).filter(|revision| *revision >= oldest))
    }
}

/// Adds the revisions up to `newest` to the index, within [`READING`].
async fn read<'i>(
    index: &'i mut Option<TimeIndex>,
    storage: &SharedStorage,
    newest: i64,
) -> Result<&'i TimeIndex, Status> {
    let before = oldest(storage).await? - 1;
    // Times before a gap would be unknown.
    if index.as_ref().is_some_and(|index| index.newest().revision < before) {
        *index = None;
    }
    let index = index.get_or_insert_with(|| TimeIndex::new(before, STRIDE));
    if newest > EMPTY {
        let filled = tokio::time::timeout(READING, fill(index, storage, newest)).await;
        match filled {
            Ok(filled) => filled.map_err(error::of_read)?,
            Err(_) => {
                let known = index.newest().revision;
                return Err(Status::service_unavailable(format!(
                    "the times of revisions are read up to {known} of {newest}: try again in a moment"
                )));
            }
        }
    }
    Ok(index)
}

async fn fill(index: &mut TimeIndex, storage: &SharedStorage, newest: i64) -> Result<(), ReadError> {
    while index.newest().revision < newest {
        let known = index.newest().revision;
        match read_after(index, storage, known, newest).await {
            // Compaction passed meanwhile.
            Err(ReadError::Compacted { oldest }) if oldest - 1 > known => index.push(oldest - 1, None),
            done => return done,
        }
    }
    Ok(())
}

async fn read_after(
    index: &mut TimeIndex,
    storage: &SharedStorage,
    after: i64,
    newest: i64,
) -> Result<(), ReadError> {
    let mut history = storage.watch("", after).await?;
    while index.newest().revision < newest {
        let batch = next(&mut *history).await?;
        if batch.revision > index.newest().revision {
            index.push(batch.revision, time_in(&batch));
        }
    }
    Ok(())
}

/// Calls `see` with the revisions of a block and their times, in order, until it returns false. Compacted ones are left out.
async fn each(
    storage: &SharedStorage,
    block: TimeBlock,
    oldest: i64,
    mut see: impl FnMut(i64, Option<i64>) -> bool,
) -> Result<(), ReadError> {
    let mut revision = block.after.revision.max(oldest - 1).max(EMPTY);
    if revision >= block.upto {
        return Ok(());
    }
    let mut history = storage.watch("", revision).await?;
    while revision < block.upto {
        let batch = next(&mut *history).await?;
        revision = batch.revision;
        if revision <= block.upto && !see(revision, time_in(&batch)) {
            break;
        }
    }
    Ok(())
}

/// The next batch of a history that has one.
///
/// # Errors
/// It does not arrive, or is compacted.
pub(crate) async fn next(history: &mut dyn RawWatch) -> Result<RawBatch, ReadError> {
    match tokio::time::timeout(limits::FRESH_WAIT, history.next()).await {
        Ok(Some(batch)) => batch,
        Ok(None) => Err(ReadError::Unavailable("the storage is closed".to_owned())),
        Err(_) => Err(ReadError::Unavailable("the history does not arrive".to_owned())),
    }
}

fn time_in(batch: &RawBatch) -> Option<i64> {
    batch.note.as_deref().and_then(Note::decode).map(|note| note.time_us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use kstore_storage::storage::embedded::Embedded;
    use kstore_storage::storage::{Commit, Write};
    use kstore_store::{Config, Store};
    use std::sync::Arc;

    async fn write(storage: &SharedStorage, seconds: Option<i64>) -> i64 {
        let text = |text: &str| text.to_owned();
        let note = seconds.map(|seconds| Note {
            user: text("u"),
            agent: text("a"),
            verb: text("create"),
            causes: Vec::new(),
            time_us: seconds * 1_000_000,
        });
        let put =
            Write::Put { key: text("/registry/pods/ns/a"), value: Bytes::from_static(b"{}"), ttl_seconds: 0 };
        let note = note.map(|note| note.encode()).unwrap_or_default();
        storage.commit(Commit { guards: Vec::new(), writes: vec![put], note }).await.unwrap();
        storage.revision().await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn states_are_found_by_time_before_and_after_a_compaction() {
        let store = Store::open(Config::memory(), kstore_nondet::Nondet::simulated(7)).await.unwrap();
        let storage: SharedStorage = Arc::new(Embedded::new(store.clone()));
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let history = History::default();
        assert_eq!(history.state_at(&storage, 1, at(5)).await.unwrap(), Some(1), "an empty store");
        let mut newest = 1;
        for seconds in [Some(100), Some(110), None, Some(90), Some(120)] {
            newest = write(&storage, seconds).await;
        }
        assert_eq!(newest, 6);
        for (seconds, expected) in [(99, 1), (100, 2), (109, 2), (110, 5), (119, 5), (120, 6), (999, 6)] {
            let found = history.state_at(&storage, newest, at(seconds)).await.unwrap();
            assert_eq!(found, Some(expected), "at {seconds}");
        }
        assert_eq!(time_of(&storage, 4).await, Some(at(110)), "without a note");

        store.compact(kstore_store::Revision(5)).await.unwrap();
        assert_eq!(oldest(&storage).await.unwrap(), 5);
        for history in [&history, &History::default()] {
            assert_eq!(history.state_at(&storage, newest, at(85)).await.unwrap(), None);
            assert_eq!(history.state_at(&storage, newest, at(119)).await.unwrap(), Some(5));
        }
        let refusal = not_retained(&storage, "revision 3", at(130)).await;
        let expected =
            "revision 3 is not retained: the oldest is 5 (00:01:30); a longer --history keeps more";
        assert_eq!((refusal.code, &*refusal.message), (410, expected));
        assert_eq!(shown_time(at(90), at(90_000)), "1970-01-01T00:01:30Z");
    }
}
