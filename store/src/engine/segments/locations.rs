//! Locations of all records: a sorted map with little overhead, since records arrive in ascending order and there are
//! millions of them.

use super::Location;
use crate::Revision;
use crate::types::record::RecordKey;
use std::ops::RangeBounds;

/// Rows per chunk. Removing a row moves half of them on average.
const CHUNK: usize = if cfg!(test) { 8 } else { 256 };

/// A record's key and location, without padding between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    main: Revision,
    sub: u32,
    location: Location,
}

impl Row {
    pub(super) fn new(key: RecordKey, location: Location) -> Self {
        Self { main: key.main, sub: key.sub, location }
    }

    pub(super) fn key(&self) -> RecordKey {
        RecordKey::new(self.main, self.sub)
    }

    pub(super) fn location(&self) -> Location {
        self.location
    }
}

/// A sorted map from record keys to locations, in chunks.
#[derive(Debug, Default)]
pub(super) struct LocationMap {
    /// Chunks in ascending order; none is empty.
    chunks: Vec<Vec<Row>>,
}

impl LocationMap {
    /// Builds the map from rows in any order. Among rows with the same key, the last one wins.
    pub(super) fn of(mut rows: Vec<Row>) -> Self {
        // Stable, and fast for nearly sorted input.
        rows.sort_by_key(Row::key);
        rows.reverse();
        rows.dedup_by_key(|row| row.key());
        rows.reverse();
        Self { chunks: rows.chunks(CHUNK).map(<[Row]>::to_vec).collect() }
    }

    /// The chunk where `key` is or would be, and its index in the chunk.
    fn find(&self, key: RecordKey) -> (usize, Result<usize, usize>) {
        let chunk = self.chunks.partition_point(|chunk| chunk[0].key() <= key).saturating_sub(1);
        let slot = self.chunks.get(chunk).map_or(Err(0), |rows| rows.binary_search_by_key(&key, Row::key));
        (chunk, slot)
    }

    pub(super) fn get(&self, key: RecordKey) -> Option<Location> {
        let (chunk, slot) = self.find(key);
        slot.ok().map(|slot| self.chunks[chunk][slot].location)
    }

    /// Inserts a location and returns the record's previous one.
    pub(super) fn insert(&mut self, key: RecordKey, location: Location) -> Option<Location> {
        let row = Row::new(key, location);
        match self.find(key) {
            (chunk, Ok(slot)) => {
                let old = std::mem::replace(&mut self.chunks[chunk][slot], row);
                return Some(old.location);
            }
            (chunk, Err(slot)) => self.insert_at(chunk, slot, row),
        }
        None
    }

    fn insert_at(&mut self, chunk: usize, slot: usize, row: Row) {
        let last = chunk + 1 >= self.chunks.len();
        match self.chunks.get_mut(chunk) {
            Some(rows) if rows.len() < CHUNK => rows.insert(slot, row),
            // Keys arrive ascending, so the full chunk is finished.
            Some(rows) if last && slot == rows.len() => {
                rows.shrink_to_fit();
                self.chunks.push(begin(row));
            }
            Some(rows) => {
                let mut upper = rows.split_off(CHUNK / 2);
                let half = if slot <= rows.len() { rows } else { &mut upper };
                let slot = if slot <= CHUNK / 2 { slot } else { slot - CHUNK / 2 };
                half.insert(slot, row);
                self.chunks.insert(chunk + 1, upper);
            }
            None => self.chunks.push(begin(row)),
        }
    }

    pub(super) fn remove(&mut self, key: RecordKey) -> Option<Location> {
        let (chunk, Ok(slot)) = self.find(key) else { return None };
        let rows = &mut self.chunks[chunk];
        let row = rows.remove(slot);
        if rows.is_empty() {
            self.chunks.remove(chunk);
        } else if rows.len() <= CHUNK / 4 {
            self.join(chunk);
        }
        Some(row.location)
    }

    /// Joins a small chunk with the next one, if both fit into half a chunk.
    fn join(&mut self, chunk: usize) {
        let together = self.chunks[chunk..].iter().take(2).map(Vec::len).sum::<usize>();
        if chunk + 1 < self.chunks.len() && together <= CHUNK / 2 {
            let mut upper = self.chunks.remove(chunk + 1);
            let rows = &mut self.chunks[chunk];
            rows.append(&mut upper);
            rows.shrink_to(CHUNK / 2);
        }
    }

    /// All rows, ascending by key.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Row> {
        self.chunks.iter().flatten()
    }

    /// The rows of a range, ascending by key.
    pub(super) fn range(&self, keys: impl RangeBounds<RecordKey>) -> impl Iterator<Item = &Row> {
        let from = match keys.start_bound() {
            std::ops::Bound::Included(key) | std::ops::Bound::Excluded(key) => *key,
            std::ops::Bound::Unbounded => RecordKey::new(Revision(i64::MIN), 0),
        };
        let (chunk, slot) = self.find(from);
        let slot = slot.unwrap_or_else(|slot| slot);
        let first = self.chunks.get(chunk).map_or(&[][..], |rows| &rows[slot..]);
        let rest = self.chunks.get(chunk + 1..).unwrap_or(&[]).iter().flatten();
        let rows = first.iter().chain(rest).skip_while({
            let before = (keys.start_bound().cloned(), std::ops::Bound::Unbounded);
            move |row| !before.contains(&row.key())
        });
        let within = (std::ops::Bound::Unbounded, keys.end_bound().cloned());
        rows.take_while(move |row| within.contains(&row.key()))
    }
}

/// A new chunk with the capacity of a full one.
fn begin(row: Row) -> Vec<Row> {
    let mut rows = Vec::with_capacity(CHUNK);
    rows.push(row);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert_eq, proptest};
    use std::collections::BTreeMap;

    fn location(n: u32) -> Location {
        Location { file: n, offset: n, len: n }
    }

    fn rows<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<(RecordKey, Location)> {
        rows.map(|row| (row.key(), row.location())).collect()
    }

    proptest! {
        #[test]
        fn locations_are_a_sorted_map(
            actions in proptest::collection::vec((0i64..80, 0u32..3, any::<bool>()), 1..400),
            ascending in 0i64..100,
            ranges in proptest::collection::vec((0i64..90, 0i64..90), 10),
        ) {
            let (mut locations, mut model) = (LocationMap::default(), BTreeMap::new());
            let first = (0..ascending).map(|main| (main, 0, false));
            let mut log = Vec::new();
            for ((main, sub, remove), n) in first.chain(actions).zip(0..) {
                let key = RecordKey::new(Revision(main), sub);
                if remove {
                    prop_assert_eq!(locations.remove(key), model.remove(&key));
                    log.retain(|row: &Row| row.key() != key);
                } else {
                    prop_assert_eq!(locations.insert(key, location(n)), model.insert(key, location(n)));
                    log.push(Row::new(key, location(n)));
                }
                prop_assert_eq!(locations.get(key), model.get(&key).copied());
            }
            let all: Vec<_> = model.iter().map(|(key, location)| (*key, *location)).collect();
            prop_assert_eq!(&rows(locations.iter()), &all);
            prop_assert_eq!(&rows(LocationMap::of(log).iter()), &all);
            for (from, to) in ranges {
                let (from, to) = (RecordKey::new(Revision(from), 0), RecordKey::note(Revision(to)));
                if from <= to {
                    let inside: Vec<_> = model.range(from..=to).map(|(key, location)| (*key, *location)).collect();
                    prop_assert_eq!(rows(locations.range(from..=to)), inside);
                }
                let below: Vec<_> = model.range(..to).map(|(key, location)| (*key, *location)).collect();
                prop_assert_eq!(rows(locations.range(..to)), below);
            }
        }
    }
}
