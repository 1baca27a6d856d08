//! Tests of the index against a map that keeps every version.

use super::{Index, IndexBuilder, Version, VersionRef};
use crate::types::kv::Stamp;
use crate::{KeyRange, KeyValue, Revision};
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use std::collections::BTreeMap;
use std::sync::Arc;

/// For each key, whether it exists from each revision on.
type Model = BTreeMap<Vec<u8>, BTreeMap<i64, bool>>;

/// Keys that differ early, late, and in their length.
fn key(n: u16) -> Vec<u8> {
    match n % 4 {
        0 => format!("{n:03}").into_bytes(),
        1 => format!("{:02}/what-many-keys-have-in-common/{n:03}", n / 100).into_bytes(),
        2 => format!("{:02}/what-many-keys-have-in-common/", n / 100).into_bytes(),
        _ => [format!("{:02}", n / 50).as_bytes(), &[0].repeat(usize::from(n % 13))].concat(),
    }
}

fn version(key: &[u8], main: i64, dead: bool) -> Version {
    let stamp = Stamp { mod_revision: Revision(main), ..Stamp::default() };
    Version { kv: Arc::new(KeyValue::new(key, &[], stamp)), main: Revision(main), sub: 0, dead }
}

fn alive(model: &Model, keys: &KeyRange, revision: i64) -> Vec<(Vec<u8>, i64)> {
    let at =
        |history: &BTreeMap<i64, bool>| history.range(..=revision).next_back().map(|(r, alive)| (*r, *alive));
    let inside = model.iter().filter(|(key, _)| keys.contains(key));
    inside.filter_map(|(key, history)| at(history).filter(|f| f.1).map(|f| (key.clone(), f.0))).collect()
}

fn found(index: &Index, keys: &KeyRange, revision: i64) -> Vec<(Vec<u8>, i64)> {
    let name = |found: VersionRef<'_>| match found {
        VersionRef::Newest(kv) => kv.mod_revision().0,
        VersionRef::Stored(key) => key.main.0,
    };
    let at = |entry: &super::KeyEntry| Some((entry.key().to_vec(), name(entry.at(Revision(revision))?)));
    index.range(keys).filter_map(at).collect()
}

fn ranges() -> impl Strategy<Value = KeyRange> {
    let key = || (0u16..900).prop_map(key);
    prop_oneof![
        Just(KeyRange::all()),
        key().prop_map(KeyRange::single),
        key().prop_map(KeyRange::from_key),
        (key(), key()).prop_map(|(a, b)| KeyRange::between(a, b)),
        (0u8..9).prop_map(|n| KeyRange::prefix(n.to_string())),
    ]
}

/// Reference for compaction: removes a version if its successor is below `floor`, and a tombstone if it is itself
/// below.
fn compact_naively(model: &mut Model, floor: i64) {
    for history in model.values_mut() {
        let versions: Vec<_> = history.iter().map(|(r, alive)| (*r, *alive)).collect();
        let successors = versions.iter().skip(1).map(|next| next.0).chain([i64::MAX]);
        for ((revision, alive), successor) in versions.iter().zip(successors) {
            if successor < floor || !alive && *revision < floor {
                history.remove(revision);
            }
        }
    }
    model.retain(|_, history| !history.is_empty());
}

/// Compacts step by step. Returns the number of removed versions.
fn compact(index: &mut Index, floor: i64) -> usize {
    let (mut removed, mut from) = (Vec::new(), Some(Box::default()));
    while let Some(key) = from {
        from = index.compact(&key, Revision(floor), &mut removed);
    }
    removed.len()
}

fn histories(index: &Index) -> Vec<(Vec<u8>, Vec<i64>)> {
    let kept = |entry: &super::KeyEntry| entry.revisions().map(|revision| revision.0).collect();
    index.iter().map(|entry| (entry.key().to_vec(), kept(entry))).collect()
}

#[derive(Clone, Debug)]
enum Action {
    /// Writes a key, or deletes it if it exists and the random number says so.
    Write(u16, u8),
    /// Deletes every existing key of a range, in one revision each.
    Clear(KeyRange),
    /// Compacts at this fraction of the readable revisions.
    Compact(f64),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        300 => (0u16..900, any::<u8>()).prop_map(|(key, byte)| Action::Write(key, byte)),
        1 => ranges().prop_map(Action::Clear),
        2 => (0.0..1.0).prop_map(Action::Compact),
    ]
}

/// The index and its model, changed together.
struct IndexAndModel {
    index: Index,
    model: Model,
    newest: i64,
    floor: i64,
}

impl IndexAndModel {
    fn write(&mut self, key: &[u8], dead: bool) {
        self.newest += 1;
        self.index.apply(version(key, self.newest, dead));
        self.model.entry(key.to_vec()).or_default().insert(self.newest, !dead);
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Write(key_number, byte) => {
                let key = key(key_number);
                let exists = self.index.get(&key).is_some_and(super::KeyEntry::is_live);
                self.write(&key, exists && byte < 90);
            }
            Action::Clear(keys) => {
                for (key, _) in alive(&self.model, &keys, self.newest) {
                    self.write(&key, true);
                }
            }
            Action::Compact(part) => {
                let kept =
                    |both: &Self| both.index.iter().map(|entry| entry.revisions().count()).sum::<usize>();
                let before = kept(self);
                self.floor = self.at(part);
                let removed = compact(&mut self.index, self.floor);
                assert_eq!(kept(self) + removed, before, "what goes is named");
                assert_eq!(compact(&mut self.index, self.floor), 0, "nothing is left over");
                compact_naively(&mut self.model, self.floor);
                self.index.check();
            }
        }
    }

    /// A readable revision.
    fn at(&self, part: f64) -> i64 {
        self.floor + (part * (self.newest - self.floor + 1) as f64) as i64
    }
}

proptest! {
    #[test]
    fn every_revision_reads_as_written(
        actions in proptest::collection::vec(action(), 1..1500),
        reads in proptest::collection::vec((ranges(), 0.0..1.0), 20),
    ) {
        let mut both = IndexAndModel { index: Index::default(), model: Model::new(), newest: 1, floor: 1 };
        actions.into_iter().for_each(|action| both.act(action));
        both.index.check();
        let naive = both.model.iter().map(|(key, history)| (key.clone(), history.keys().copied().collect()));
        prop_assert_eq!(histories(&both.index), naive.collect::<Vec<_>>());
        for (keys, part) in reads {
            for revision in [both.at(part), both.newest] {
                let expected = alive(&both.model, &keys, revision);
                prop_assert_eq!(both.index.count(&keys, Revision(revision)), expected.len());
                prop_assert_eq!(found(&both.index, &keys, revision), expected);
            }
        }
    }
}

proptest! {
    #[test]
    fn an_index_rebuilt_in_any_order_equals_the_original(
        versions in proptest::collection::btree_map(0i64..1000, (0u16..200, any::<bool>()), 0..400)
            .prop_flat_map(|versions| {
                let versions: Vec<_> = versions.into_iter().collect();
                (Just(versions.clone()), Just(versions).prop_shuffle())
            }),
        twice in 0usize..50,
    ) {
        let (ordered, shuffled) = versions;
        let (mut index, mut restore) = (Index::default(), IndexBuilder::default());
        ordered.iter().for_each(|(main, (n, dead))| index.apply(version(&key(*n), *main, *dead)));
        for (main, (n, dead)) in shuffled.iter().chain(shuffled.iter().take(twice)) {
            restore.add(version(&key(*n), *main, *dead));
        }
        let restored = restore.finish();
        restored.check();
        prop_assert_eq!(histories(&restored), histories(&index));
        for revision in (0..1000).step_by(37) {
            let all = KeyRange::all();
            prop_assert_eq!(found(&restored, &all, revision), found(&index, &all, revision));
            prop_assert_eq!(restored.count(&all, Revision(revision)), index.count(&all, Revision(revision)));
        }
    }
}

#[test]
fn compaction_keeps_the_versions_that_reads_and_watches_need() {
    /// Versions of one key as (revision, tombstone), the compacted revision, and the revisions that stay.
    type Row = (&'static [(i64, bool)], i64, &'static [i64]);
    let table: &[Row] = &[
        (&[(2, false), (5, false)], 4, &[2, 5]),
        (&[(2, false), (5, false)], 5, &[2, 5]),
        (&[(2, false), (5, false)], 6, &[5]),
        (&[(2, false), (5, true)], 5, &[2, 5]),
        (&[(2, false), (5, true)], 6, &[]),
        (&[(2, false), (5, true), (8, false)], 6, &[8]),
        (&[(2, false), (5, true), (8, false)], 5, &[2, 5, 8]),
        (&[(2, false), (3, false), (4, false), (9, false)], 8, &[4, 9]),
    ];
    for (versions, floor, kept) in table {
        let mut index = Index::default();
        versions.iter().for_each(|(main, dead)| index.apply(version(b"k", *main, *dead)));
        index.compact(b"", Revision(*floor), &mut Vec::new());
        let stays = index.get(b"k").map_or(vec![], |entry| entry.revisions().map(|r| r.0).collect());
        assert_eq!(&stays, kept, "{versions:?} compacted at {floor}");
    }
}
