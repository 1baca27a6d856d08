//! Makes the contents of a new cache from all stored values. Objects are decoded independently, so threads
//! share the work; the results are joined in key order, so that the outcome is the same with any number of
//! threads.

use super::kind::Kind;
use super::root;
use super::unreadable::Unreadable;
use crate::entry::Entry;
use crate::kinds::Kinds;
use kstore_storage::load_progress::LoadProgress;
use kstore_storage::storage::Raw;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

/// Most threads to use: more do not decode faster, because memory bandwidth limits them.
const THREADS: usize = 4;

/// Number of objects that are worth a thread.
const SHARE: usize = 2048;

/// Objects after which the progress is counted.
const COUNTED: usize = 1000;

/// All stored kinds with their objects as of `revision`, and the values that are not valid objects, in key
/// order. `items` must be in key order; keys that belong to no kind are ignored.
pub(super) fn kinds(
    served: &Kinds,
    items: &[Raw],
    revision: i64,
    progress: &LoadProgress,
) -> (BTreeMap<&'static str, Kind>, Vec<Unreadable>) {
    progress.begin(items.len());
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let mut by_root: BTreeMap<&'static str, Vec<Arc<Entry>>> =
        served.rows().stored().map(|resource| (root(resource), Vec::new())).collect();
    let mut unreadable = Vec::new();
    for share in shares(served, items, threads.min(items.len() / SHARE), progress) {
        unreadable.extend(share.unreadable);
        for entry in share.entries {
            by_root.get_mut(root(entry.resource)).expect("every stored kind has a map").push(entry);
        }
    }
    let kinds = by_root.into_iter().map(|(root, entries)| (root, Kind::of(&entries, revision))).collect();
    (kinds, unreadable)
}

/// The decoded entries of one thread's share of the items, in their order.
#[derive(Default)]
struct DecodedShare {
    entries: Vec<Arc<Entry>>,
    unreadable: Vec<Unreadable>,
}

/// Decodes the items with several threads, including this one; one result per share, in the order of the
/// items.
fn shares(served: &Kinds, items: &[Raw], threads: usize, progress: &LoadProgress) -> Vec<DecodedShare> {
    let share = items.len().div_ceil(threads.max(1)).max(1);
    let (own, others) = items.split_at(share.min(items.len()));
    thread::scope(|scope| {
        let begin = |share| {
            let builder = thread::Builder::new().name("kstore-fill".to_owned());
            // If no thread can be started, this thread decodes the share.
            builder.spawn_scoped(scope, move || entries(served, share, progress)).map_err(|_| share)
        };
        let begun: Vec<_> = others.chunks(share).map(begin).collect();
        let mut shares = vec![entries(served, own, progress)];
        shares.extend(begun.into_iter().map(|begun| match begun {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(share) => entries(served, share, progress),
        }));
        shares
    })
}

fn entries(served: &Kinds, items: &[Raw], progress: &LoadProgress) -> DecodedShare {
    let mut share = DecodedShare::default();
    for chunk in items.chunks(COUNTED) {
        for (resource, raw) in chunk.iter().filter_map(|raw| Some((served.of_key(&raw.key)?, raw))) {
            match Entry::from_raw(resource, raw) {
                Ok(entry) => share.entries.push(Arc::new(entry)),
                Err(error) => share.unreadable.push(Unreadable::new(raw, &error)),
            }
        }
        progress.add(chunk.len());
    }
    share
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(key: &str, node: &str) -> Raw {
        let name = key.rsplit('/').next().unwrap();
        let value = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"ns"}},"spec":{{"nodeName":"{node}"}}}}"#
        );
        Raw { key: key.to_owned().into(), value: value.into(), undecrypted: None, revision: 7, created: 3 }
    }

    fn many() -> Vec<Raw> {
        let pods = (0..1000).map(|n| raw(&format!("/registry/pods/ns/p{n:04}"), &format!("n{}", n % 7)));
        pods.chain([raw("/registry/unknown/x", "")]).collect()
    }

    fn names(shares: Vec<DecodedShare>) -> Vec<String> {
        shares.into_iter().flat_map(|share| share.entries).map(|entry| entry.name().to_owned()).collect()
    }

    #[test]
    fn the_result_does_not_depend_on_the_number_of_threads() {
        let items = many();
        let alone = names(shares(&Kinds::built_in(), &items, 1, &LoadProgress::default()));
        assert_eq!(alone.len(), 1000, "what is none of ours is left out");
        for threads in [0, 2, 3, 4, 2000] {
            assert_eq!(
                names(shares(&Kinds::built_in(), &items, threads, &LoadProgress::default())),
                alone,
                "{threads} threads"
            );
        }
        assert_eq!(
            shares(&Kinds::built_in(), &[], 4, &LoadProgress::default())
                .into_iter()
                .map(|share| share.entries.len())
                .sum::<usize>(),
            0
        );
    }

    #[test]
    fn malformed_values_are_reported_and_the_others_are_filled_in() {
        let mut items = many();
        for at in [900, 400] {
            items[at].value = "{".into();
        }
        for threads in [1, 2, 4] {
            let shares = shares(&Kinds::built_in(), &items, threads, &LoadProgress::default());
            let unreadable = shares.iter().flat_map(|share| &share.unreadable).map(|value| &value.key[..]);
            assert_eq!(
                unreadable.collect::<Vec<_>>(),
                ["/registry/pods/ns/p0400", "/registry/pods/ns/p0900"]
            );
            assert_eq!(names(shares).len(), 998);
        }
    }

    #[test]
    fn a_filled_kind_equals_one_with_inserted_objects() {
        let items = many();
        let progress = LoadProgress::default();
        let (kinds, unreadable) = kinds(&Kinds::built_in(), &items, 9, &progress);
        assert_eq!(unreadable, []);
        assert_eq!(progress.get(), (items.len(), items.len()));
        let filled = &kinds["/registry/pods"];
        let mut grown = Kind::of(&[], 9);
        for entry in entries(&Kinds::built_in(), &items, &progress).entries {
            grown.insert(&entry);
        }
        let pods = kstore_api::kind::lookup("", "v1", "pods").unwrap();
        let of = |kind: &Kind, node: &str| {
            let mut filter = super::super::Filter::all(pods);
            if !node.is_empty() {
                filter.fields =
                    kstore_api::selector::field::Selector::parse(&format!("spec.nodeName={node}")).unwrap();
            }
            kind.candidates(&filter).from("").map(|entry| entry.key().to_owned()).collect::<Vec<_>>()
        };
        for node in ["", "n0", "n6", "none"] {
            assert_eq!(of(filled, node), of(&grown, node), "node {node:?}");
        }
        assert_eq!((filled.objects().len(), filled.changed), (1000, 9));
    }
}
