//! Winning back space: copies what is still wanted out of one file into the newest, then retires the file.

use parking_lot::RwLock;

use super::files::{Finished, Tail, file_bytes, walk};
use super::{EngineError, Inner, Place, Removal};
use crate::codec::history::{self, Entry};
use crate::commit::RecordKey;
use crate::engine::RecordKind;

/// A file that holds less than half of what it could in wanted bytes is worth copying: each byte is then written at most
/// about twice in all.
fn wasteful(file: &Finished) -> bool {
    file.wanted * 2 < file.len
}

/// Every start begins a file, and a store that grows outgrows its small ones; more than so many are joined.
const SMALL_FILES: usize = 8;

/// The file to copy next, and whether there are more.
fn choose(inner: &Inner, tail: &Tail) -> Option<(Finished, bool)> {
    let finished: Vec<_> = inner.files.finished(tail.number()).collect();
    let mut wasted: Vec<_> = finished.iter().filter(|file| wasteful(file)).collect();
    wasted.sort_unstable_by_key(|file| file.wanted * 1_000 / file.len);
    if let Some(file) = wasted.first() {
        return Some((**file, wasted.len() > 1));
    }
    let large = file_bytes(inner.files.size().live, tail.most());
    let small = finished.iter().filter(|file| file.len < large / 4);
    let count = small.clone().count();
    let file = small.min_by_key(|file| file.len).filter(|_| count > SMALL_FILES)?;
    Some((*file, count > SMALL_FILES + 1))
}

/// Records whose places change under one turn of the lock.
const TURN: usize = 1_024;

/// Removals in one entry.
const MARKS: usize = 1_024;

/// What of a file goes on.
#[derive(Default)]
struct Kept<'a> {
    records: Vec<(RecordKind, RecordKey, &'a [u8])>,
    /// Removals of records, with the files where those stand.
    removed: Vec<(RecordKey, u32)>,
    /// Records whose removal need not be remembered once the file is gone.
    gone: Vec<RecordKey>,
}

/// Copies one file; says whether another is worth it.
pub(super) fn step(inner: &RwLock<Inner>, tail: &mut Tail) -> Result<bool, EngineError> {
    let (number, bytes, more) = {
        let inner = inner.read();
        let Some((file, more)) = choose(&inner, tail) else { return Ok(false) };
        (file.number, inner.files.read_whole(file.number, file.len)?, more)
    };
    let kept = sort(&inner.read(), number, &bytes)?;
    let mut places = Vec::with_capacity(kept.records.len());
    for (kind, key, body) in &kept.records {
        places.push((*key, tail.append(inner, |out| history::put(out, *kind, *key, body))?));
    }
    let mut marks = Vec::new();
    for (keys, stands) in
        kept.removed.chunks(MARKS).map(|part| part.iter().copied().unzip::<_, _, Vec<_>, Vec<_>>())
    {
        let mark = tail.append(inner, |out| history::put_removed(out, &keys))?;
        marks.extend(
            keys.into_iter().zip(stands).map(|(key, stands)| (key, Removal { stands, marked: mark.file })),
        );
    }
    tail.flush(inner)?;
    // In turns: readers wait for one.
    places.chunks(TURN).for_each(|turn| {
        let mut inner = inner.write();
        turn.iter().for_each(|(key, place)| inner.insert(*key, *place));
    });
    marks.chunks(TURN).for_each(|turn| {
        let mut inner = inner.write();
        turn.iter().for_each(|(key, removal)| inner.remember(*key, *removal));
    });
    let mut inner = inner.write();
    kept.gone.into_iter().for_each(|key| inner.forgive(key));
    inner.files.retire(number);
    Ok(more)
}

/// Decides what of a file goes on: records that are wanted and stand here, and removals of records that stand elsewhere.
fn sort<'a>(inner: &Inner, number: u32, bytes: &'a [u8]) -> Result<Kept<'a>, EngineError> {
    let mut kept = Kept::default();
    walk(number, bytes, |entry, place: Place| match entry {
        Entry::Record(kind, key, body) => {
            if inner.places.get(key) == Some(place) {
                kept.records.push((kind, key, body));
            } else if inner.removed.get(&key).is_some_and(|removal| removal.stands == number) {
                kept.gone.push(key);
            }
        }
        Entry::Removed(keys) => kept.removed.extend(history::removed_keys(keys).filter_map(|key| {
            let removal = inner.removed.get(&key)?;
            (removal.marked == number && removal.stands != number).then_some((key, removal.stands))
        })),
    })?;
    Ok(kept)
}
