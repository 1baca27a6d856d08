//! Tests of the bbolt format: what is written reads back, and hostile bytes are refused.

use super::PAGE;
use super::page::decode_meta;
use super::read::{Image, ReadError};
use super::tree::{Pages, Tree};
use crate::disk::File;
use crate::maintenance::fuzz::BytesFile;
use proptest::collection::{btree_map, vec};
use proptest::prelude::{any, prop_assert_eq, proptest};
use std::collections::BTreeMap;
use std::sync::LazyLock;

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

fn image(buckets: &[(&str, &Entries)]) -> Vec<u8> {
    let mut pages = Pages::new();
    let mut roots = Vec::new();
    for (name, entries) in buckets {
        let mut tree = Tree::default();
        entries.iter().for_each(|(key, value)| tree.push(&mut pages, key, value));
        roots.push((*name, tree.finish(&mut pages)));
    }
    let metas = pages.finish(&roots);
    let mut bytes = std::mem::take(pages.out());
    bytes[..metas.len()].copy_from_slice(&metas);
    bytes
}

fn read(bytes: Vec<u8>) -> Result<BTreeMap<Vec<u8>, Entries>, ReadError> {
    let file = BytesFile(bytes);
    let image = Image::open(&file, file.len().unwrap())?;
    let mut all: BTreeMap<Vec<u8>, Entries> = BTreeMap::new();
    for bucket in image.buckets() {
        let entries = all.entry(bucket.to_owned()).or_default();
        image.visit(bucket, &mut |key, value| {
            entries.insert(key.to_owned(), value.to_owned());
            Ok(())
        })?;
    }
    Ok(all)
}

fn numbered(count: u32, value: usize) -> Entries {
    (0..count).map(|at| (at.to_be_bytes().to_vec(), vec![at as u8; value])).collect()
}

#[test]
fn trees_of_every_height_decode() {
    for (count, value) in [(0, 0), (1, 0), (1, 100_000), (200, 3), (5_000, 10), (30_000, 5), (40, 9_000)] {
        let entries = numbered(count, value);
        let bytes = image(&[("a", &Entries::new()), ("b", &entries)]);
        assert_eq!(bytes.len() % PAGE, 0);
        let all = read(bytes).unwrap();
        assert!(all[&b"b"[..]] == entries, "{count} of {value}");
        assert!(all[&b"a"[..]].is_empty());
    }
}

#[test]
fn one_valid_meta_suffices() {
    let bytes = image(&[("a", &numbered(9, 9))]);
    assert!(decode_meta(&bytes).is_some() && decode_meta(&bytes[PAGE..]).is_some());
    for broken in [0, PAGE] {
        let mut bytes = bytes.clone();
        bytes[broken + 40] ^= 1;
        assert_eq!(read(bytes.clone()).unwrap()[&b"a"[..]].len(), 9);
        bytes[PAGE - broken + 40] ^= 1;
        assert!(matches!(read(bytes), Err(ReadError::Foreign(_))));
    }
}

#[test]
fn a_cyclic_or_repeating_tree_is_refused() {
    let bytes = image(&[("a", &numbered(5_000, 10))]);
    let pages = bytes.len() / PAGE;
    // The first entry of every branch points to every page in turn, except the first leaf, which is its correct target.
    for target in (0..pages as u64 + 2).filter(|page| *page != 2) {
        let mut bytes = bytes.clone();
        for page in bytes[2 * PAGE..].chunks_mut(PAGE).filter(|page| page[8] == 1) {
            page[16 + 8..16 + 16].copy_from_slice(&target.to_le_bytes());
        }
        assert!(read(bytes).is_err(), "{target}");
    }
}

static SOUND: LazyLock<Vec<u8>> =
    LazyLock::new(|| image(&[("a", &numbered(3, 9)), ("b", &numbered(400, 50)), ("c", &numbered(9, 5_000))]));

proptest! {
    #[test]
    fn any_buckets_decode(
        one in btree_map(vec(any::<u8>(), 0..9), (any::<u8>(), 0..3_000_usize), 0..60),
        two in btree_map(any::<u16>(), 0..9_usize, 0..300),
    ) {
        let one = one.into_iter().map(|(key, (byte, len))| (key, vec![byte; len])).collect();
        let two = two.into_iter().map(|(key, len)| (key.to_be_bytes().to_vec(), vec![7; len])).collect();
        let all = read(image(&[("one", &one), ("two", &two)])).unwrap();
        prop_assert_eq!(&all[&b"one"[..]], &one);
        prop_assert_eq!(&all[&b"two"[..]], &two);
    }

    #[test]
    fn damaged_images_never_cause_a_panic_or_an_endless_loop(
        hits in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..9),
        cut in any::<proptest::sample::Index>(),
        headers_only in any::<bool>(),
    ) {
        let mut bytes = SOUND.clone();
        for (at, value) in hits {
            let mut at = at.index(bytes.len());
            if headers_only {
                at = at / PAGE * PAGE + at % 64;
            }
            bytes[at] = value;
        }
        let _ = read(bytes.clone());
        bytes.truncate(cut.index(bytes.len()));
        let _ = read(bytes);
    }

    #[test]
    fn anything_else_is_refused_without_panic(bytes in vec(any::<u8>(), 0..300)) {
        let _ = read(bytes);
    }
}
