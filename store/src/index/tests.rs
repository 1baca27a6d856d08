//! The index against a map that remembers everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

use super::{Found, Index, Version};
use crate::kv::Stamp;
use crate::{KeyRange, KeyValue, Revision};

/// Per key, what it was from each revision on: alive or not.
type Model = BTreeMap<Vec<u8>, BTreeMap<i64, bool>>;

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
    let name = |found: Found<'_>| match found {
        Found::Newest(kv) => kv.mod_revision().0,
        Found::Stored(key) => key.main.0,
    };
    let at = |entry: &super::Entry| Some((entry.key().to_vec(), name(entry.at(Revision(revision))?)));
    index.range(keys).filter_map(at).collect()
}

fn ranges() -> impl Strategy<Value = KeyRange> {
    let key = || (0u16..900).prop_map(|n| format!("{n:03}").into_bytes());
    prop_oneof![
        Just(KeyRange::all()),
        key().prop_map(KeyRange::single),
        key().prop_map(KeyRange::from_key),
        (key(), key()).prop_map(|(a, b)| KeyRange::between(a, b)),
        (0u8..9).prop_map(|n| KeyRange::prefix(n.to_string())),
    ]
}

proptest! {
    #[test]
    fn every_revision_reads_as_it_was_written(
        writes in proptest::collection::vec((0u16..900, any::<u8>()), 1..1500),
        reads in proptest::collection::vec((ranges(), 0.0..1.0), 20),
        compact in proptest::option::of(0.0..1.0),
    ) {
        let (mut index, mut model) = (Index::default(), Model::new());
        for (at, (key, dice)) in writes.iter().enumerate() {
            let (main, key) = (at as i64 + 2, format!("{key:03}").into_bytes());
            let exists = index.get(&key).is_some_and(super::Entry::is_live);
            let dead = exists && *dice < 60;
            index.apply(version(&key, main, dead));
            model.entry(key).or_default().insert(main, !dead);
        }
        index.check();
        let newest = writes.len() as i64 + 1;
        let floor = compact.map_or(1, |part: f64| 1 + (part * newest as f64) as i64);
        let mut removed = Vec::new();
        let mut from = Some(Box::default());
        while let Some(key) = from {
            from = index.compact(&key, Revision(floor), &mut removed);
        }
        index.check();
        for (keys, part) in reads {
            let revision = floor + (part * (newest - floor + 1) as f64) as i64;
            let expected = alive(&model, &keys, revision);
            prop_assert_eq!(index.count(&keys, Revision(revision)), expected.len());
            prop_assert_eq!(found(&index, &keys, revision), expected);
        }
        let kept = index.iter().map(|entry| entry.revisions().count()).sum::<usize>();
        prop_assert_eq!(kept + removed.len(), writes.len());
    }
}

#[test]
fn compaction_keeps_what_a_read_needs_and_one_step_more() {
    /// Versions of one key as (revision, dead), the compacted revision, what stays.
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
