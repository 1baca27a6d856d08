//! The index: every key, its newest version in full and the names of its older ones. Not their values (see `engine`).
//!
//! A sorted vector of chunks of sorted entries: lookups are two binary searches, scans run over dense memory, and a chunk
//! knows its number of live keys and its newest revision, so that counting does not visit keys.

mod entry;
#[cfg(test)]
mod tests;

pub(crate) use entry::{Entry, Found, Version};

use crate::commit::RecordKey;
use crate::{KeyRange, Revision};

/// A full chunk splits. Large enough that there are few chunks, small enough that an insert moves little memory.
const CHUNK: usize = 256;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Index {
    chunks: Vec<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    /// Never empty, ascending by key.
    entries: Vec<Entry>,
    /// Entries whose newest version is not a deletion.
    live: usize,
    /// The newest revision of any entry.
    newest: Revision,
    /// The lowest revision whose compaction removes something here.
    garbage_at: Revision,
}

/// Where a key is, or where it would go.
struct Place {
    chunk: usize,
    slot: Result<usize, usize>,
}

impl Index {
    fn place(&self, key: &[u8]) -> Place {
        let chunk = self.chunks.partition_point(|chunk| chunk.first() <= key).saturating_sub(1);
        let slot = match self.chunks.get(chunk) {
            Some(found) => found.entries.binary_search_by(|entry| entry.key().cmp(key)),
            None => Err(0),
        };
        Place { chunk, slot }
    }

    /// The entry of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Entry> {
        let Place { chunk, slot } = self.place(key);
        let slot = slot.ok()?;
        Some(&self.chunks[chunk].entries[slot])
    }

    /// Makes `version` the newest of its key. Versions of a key arrive in order.
    pub(crate) fn apply(&mut self, version: Version) {
        let Place { chunk, slot } = self.place(version.kv.key());
        if self.chunks.is_empty() {
            self.chunks.push(Chunk::of(vec![Entry::new(version)]));
            return;
        }
        let (main, dead) = (version.main, version.dead);
        let found = &mut self.chunks[chunk];
        found.newest = found.newest.max(main);
        let superseded = match slot {
            Ok(slot) => {
                let entry = &mut found.entries[slot];
                found.live -= usize::from(entry.is_live());
                entry.push(version);
                true
            }
            Err(slot) => {
                found.entries.insert(slot, Entry::new(version));
                false
            }
        };
        found.live += usize::from(!dead);
        if superseded || dead {
            found.garbage_at = found.garbage_at.min(main.next());
        }
        if found.entries.len() > CHUNK {
            self.split(chunk);
        }
    }

    /// Splits a chunk in the middle; the last one near its end, since keys often arrive in ascending order.
    fn split(&mut self, chunk: usize) {
        let last = chunk + 1 == self.chunks.len();
        let entries = &mut self.chunks[chunk].entries;
        let at = if last { entries.len() - entries.len() / 8 } else { entries.len() / 2 };
        let upper = entries.split_off(at);
        let lower = std::mem::take(entries);
        self.chunks[chunk] = Chunk::of(lower);
        self.chunks.insert(chunk + 1, Chunk::of(upper));
    }

    /// The entries of a range, ascending.
    pub(crate) fn range<'a>(&'a self, keys: &'a KeyRange) -> impl Iterator<Item = &'a Entry> + 'a {
        let place = self.place(&keys.start);
        let slot = place.slot.unwrap_or_else(|slot| slot);
        let first = self.chunks.get(place.chunk).map_or(&[][..], |chunk| &chunk.entries[slot..]);
        let rest = self.chunks.get(place.chunk + 1..).unwrap_or(&[]).iter().flat_map(|chunk| &chunk.entries);
        first.iter().chain(rest).take_while(|entry| !keys.is_past(entry.key()))
    }

    /// How many keys of a range exist at a revision.
    pub(crate) fn count(&self, keys: &KeyRange, revision: Revision) -> usize {
        let first = self.place(&keys.start);
        let mut count = 0;
        for (at, chunk) in self.chunks.iter().enumerate().skip(first.chunk) {
            if keys.is_past(chunk.first()) {
                break;
            }
            let whole = at > first.chunk || first.slot.as_ref().map_or_else(|slot| *slot, |slot| *slot) == 0;
            if whole && chunk.newest <= revision && !keys.is_past(chunk.last()) {
                count += chunk.live;
            } else {
                let inside = chunk.entries.iter().filter(|entry| keys.contains(entry.key()));
                count += inside.filter(|entry| entry.at(revision).is_some()).count();
            }
        }
        count
    }

    /// All entries, ascending.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.chunks.iter().flat_map(|chunk| &chunk.entries)
    }

    /// The entries of the chunk where `from` lies, and where the next chunk begins: a walk in steps, between which the
    /// index may change.
    pub(crate) fn step(&self, from: &[u8]) -> (&[Entry], Option<Box<[u8]>>) {
        let chunk = self.place(from).chunk;
        let entries = self.chunks.get(chunk).map_or(&[][..], |chunk| &chunk.entries);
        (entries, self.chunks.get(chunk + 1).map(|next| next.first().into()))
    }

    /// Removes what no read at or above `revision` needs from the chunk where `from` lies, naming what went in `removed`;
    /// returns where the next chunk begins. Idempotent.
    pub(crate) fn compact(
        &mut self,
        from: &[u8],
        revision: Revision,
        removed: &mut Vec<RecordKey>,
    ) -> Option<Box<[u8]>> {
        let chunk = self.place(from).chunk;
        let next = self.chunks.get(chunk + 1).map(|next| next.first().into());
        let found = self.chunks.get_mut(chunk)?;
        if found.garbage_at <= revision {
            found.entries.retain_mut(|entry| entry.compact(revision, removed));
            let entries = std::mem::take(&mut found.entries);
            if entries.is_empty() {
                self.chunks.remove(chunk);
            } else {
                self.chunks[chunk] = Chunk::of(entries);
                self.merge(chunk);
            }
        }
        next
    }

    /// Joins a thin chunk with the one behind it.
    fn merge(&mut self, chunk: usize) {
        let together = self.chunks[chunk..].iter().take(2).map(|chunk| chunk.entries.len()).sum::<usize>();
        if chunk + 1 < self.chunks.len() && together <= CHUNK / 2 {
            let mut entries = std::mem::take(&mut self.chunks[chunk].entries);
            entries.append(&mut self.chunks.remove(chunk + 1).entries);
            self.chunks[chunk] = Chunk::of(entries);
        }
    }

    /// Panics if the index contradicts itself.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        for chunk in &self.chunks {
            let again = Chunk::of_ref(&chunk.entries);
            assert_eq!((chunk.live, chunk.newest), again, "a chunk's sums are those of its entries");
            assert!(chunk.entries.len() <= CHUNK, "a chunk is bounded");
        }
        assert!(self.iter().is_sorted_by(|a, b| a.key() < b.key()), "keys ascend");
    }
}

impl Chunk {
    fn of(entries: Vec<Entry>) -> Self {
        let (live, newest) = Self::of_ref(&entries);
        let garbage_at = entries.iter().filter_map(Entry::garbage_at).min().unwrap_or(Revision(i64::MAX));
        Self { entries, live, newest, garbage_at }
    }

    fn of_ref(entries: &[Entry]) -> (usize, Revision) {
        let live = entries.iter().filter(|entry| entry.is_live()).count();
        (live, entries.iter().map(Entry::newest_revision).max().unwrap_or_default())
    }

    fn first(&self) -> &[u8] {
        self.entries.first().expect("a chunk is not empty").key()
    }

    fn last(&self) -> &[u8] {
        self.entries.last().expect("a chunk is not empty").key()
    }
}
