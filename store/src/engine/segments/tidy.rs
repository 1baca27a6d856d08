//! Winning back space: copies what is still wanted out of one file into the newest, then retires the file.

use parking_lot::RwLock;

use super::files::{Tail, walk};
use super::{EngineError, Inner, Place};
use crate::codec::history::{self, Entry};
use crate::commit::RecordKey;
use crate::engine::RecordKind;

/// A file that holds less than half of what it could in wanted bytes is worth copying: each byte is then written at most
/// about twice in all.
fn wasteful(len: u64, live: u64) -> bool {
    live * 2 < len
}

/// Every start begins a file; more than so many small ones are joined.
const SMALL_FILES: usize = 8;

/// The file to copy next, with its length, and whether there are more.
fn choose(inner: &Inner, tail: &Tail) -> Option<(u32, u64, bool)> {
    let finished: Vec<_> = inner.files.finished(tail.number()).collect();
    let mut wasted: Vec<_> = finished.iter().filter(|(_, len, live)| wasteful(*len, *live)).collect();
    wasted.sort_unstable_by_key(|(_, len, live)| live * 1_000 / len);
    if let Some((number, len, _)) = wasted.first() {
        return Some((*number, *len, wasted.len() > 1));
    }
    let small = finished.iter().filter(|(_, len, _)| *len < tail.max() / 4);
    let count = small.clone().count();
    let (number, len, _) = small.min_by_key(|(_, len, _)| *len).filter(|_| count > SMALL_FILES)?;
    Some((*number, *len, count > SMALL_FILES + 1))
}

/// What of a file goes on.
#[derive(Default)]
struct Kept {
    records: Vec<(RecordKind, RecordKey, Vec<u8>)>,
    removed: Vec<RecordKey>,
    /// Records whose removal need not be remembered once the file is gone.
    gone: Vec<RecordKey>,
}

/// Copies one file; says whether another is worth it.
pub(super) fn step(inner: &RwLock<Inner>, tail: &mut Tail) -> Result<bool, EngineError> {
    let (number, bytes, more) = {
        let inner = inner.read();
        let Some((number, len, more)) = choose(&inner, tail) else { return Ok(false) };
        (number, inner.files.read_whole(number, len)?, more)
    };
    let kept = sort(&inner.read(), number, &bytes)?;
    let mut places = Vec::with_capacity(kept.records.len());
    for (kind, key, body) in &kept.records {
        places.push(tail.append(inner, |out| history::put(out, *kind, *key, body))?);
    }
    if !kept.removed.is_empty() {
        tail.append(inner, |out| history::put_removed(out, &kept.removed))?;
    }
    tail.flush(inner)?;
    let mut inner = inner.write();
    for ((_, key, _), place) in kept.records.iter().zip(places) {
        inner.insert(*key, place);
    }
    for key in kept.gone {
        inner.removed.remove(&key);
    }
    inner.files.retire(number);
    Ok(more)
}

/// Decides what of a file goes on: records that are wanted and stand here, and removals of records that stand elsewhere.
fn sort(inner: &Inner, number: u32, bytes: &[u8]) -> Result<Kept, EngineError> {
    let mut kept = Kept::default();
    walk(number, bytes, |entry, place: Place| match entry {
        Entry::Record(kind, key, body) => {
            if inner.places.get(key) == Some(place) {
                kept.records.push((kind, key, body.to_vec()));
            } else if inner.removed.get(&key) == Some(&number) {
                kept.gone.push(key);
            }
        }
        Entry::Removed(keys) => {
            let elsewhere = |key: &RecordKey| inner.removed.get(key).is_some_and(|file| *file != number);
            kept.removed.extend(history::removed_keys(keys).filter(elsewhere));
        }
    })?;
    Ok(kept)
}
