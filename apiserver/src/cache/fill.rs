//! The contents of a new cache, made of all that is stored. What one object is does not depend on any other, so that threads
//! share the work; they are put together in key order, so that the outcome is the same with one thread and with many. Not the
//! reading of the storage, and not the changes that come later.

use super::entry::Entry;
use super::kind::Kind;
use super::root;
use super::set_aside::Unreadable;
use crate::kinds::Kinds;
use crate::storage::Raw;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

/// Threads at most, whatever the machine has: the storage's memory is read no faster by more.
const THREADS: usize = 4;

/// Objects that are worth a thread of their own.
const SHARE: usize = 2048;

/// Every stored kind with its objects, as of `revision`, and the values that are not objects, in key order. `items` are in key
/// order; keys of no kind are left out.
pub(super) fn kinds(
    served: &Kinds,
    items: &[Raw],
    revision: i64,
) -> (BTreeMap<&'static str, Kind>, Vec<Unreadable>) {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let mut by_root: BTreeMap<&'static str, Vec<Arc<Entry>>> =
        served.rows().stored().map(|resource| (root(resource), Vec::new())).collect();
    let mut unreadable = Vec::new();
    for part in parts(served, items, threads.min(items.len() / SHARE)) {
        unreadable.extend(part.unreadable);
        for entry in part.entries {
            by_root.get_mut(root(entry.resource)).expect("every stored kind has its place").push(entry);
        }
    }
    let kinds = by_root.into_iter().map(|(root, entries)| (root, Kind::of(&entries, revision))).collect();
    (kinds, unreadable)
}

/// The outcome of one thread's share of the items, in their order.
#[derive(Default)]
struct Part {
    entries: Vec<Arc<Entry>>,
    unreadable: Vec<Unreadable>,
}

/// What some threads, this one among them, make of a part of the items each; in the order of the items.
fn parts(served: &Kinds, items: &[Raw], threads: usize) -> Vec<Part> {
    let share = items.len().div_ceil(threads.max(1)).max(1);
    let (own, others) = items.split_at(share.min(items.len()));
    thread::scope(|scope| {
        let begin = |part| {
            let builder = thread::Builder::new().name("kstore-fill".to_owned());
            // No more threads: then without.
            builder.spawn_scoped(scope, move || entries(served, part)).map_err(|_| part)
        };
        let begun: Vec<_> = others.chunks(share).map(begin).collect();
        let mut parts = vec![entries(served, own)];
        parts.extend(begun.into_iter().map(|begun| match begun {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(part) => entries(served, part),
        }));
        parts
    })
}

fn entries(served: &Kinds, items: &[Raw]) -> Part {
    let mut part = Part::default();
    for (resource, raw) in items.iter().filter_map(|raw| Some((served.of_key(&raw.key)?, raw))) {
        match Entry::from_raw(resource, raw) {
            Ok(entry) => part.entries.push(Arc::new(entry)),
            Err(error) => part.unreadable.push(Unreadable::new(raw, &error)),
        }
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(key: &str, node: &str) -> Raw {
        let name = key.rsplit('/').next().unwrap();
        let value = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"ns"}},"spec":{{"nodeName":"{node}"}}}}"#
        );
        Raw { key: key.to_owned().into(), value: value.into(), revision: 7, created: 3 }
    }

    fn many() -> Vec<Raw> {
        let pods = (0..1000).map(|n| raw(&format!("/registry/pods/ns/p{n:04}"), &format!("n{}", n % 7)));
        pods.chain([raw("/registry/unknown/x", "")]).collect()
    }

    fn names(parts: Vec<Part>) -> Vec<String> {
        parts.into_iter().flat_map(|part| part.entries).map(|entry| entry.name().to_owned()).collect()
    }

    #[test]
    fn however_many_threads_share_the_work_the_outcome_is_the_same() {
        let items = many();
        let alone = names(parts(&Kinds::built_in(), &items, 1));
        assert_eq!(alone.len(), 1000, "what is none of ours is left out");
        for threads in [0, 2, 3, 4, 2000] {
            assert_eq!(names(parts(&Kinds::built_in(), &items, threads)), alone, "{threads} threads");
        }
        assert_eq!(
            parts(&Kinds::built_in(), &[], 4).into_iter().map(|part| part.entries.len()).sum::<usize>(),
            0
        );
    }

    #[test]
    fn malformed_values_are_set_aside_and_the_others_are_filled_in() {
        let mut items = many();
        for at in [900, 400] {
            items[at].value = "{".into();
        }
        for threads in [1, 2, 4] {
            let parts = parts(&Kinds::built_in(), &items, threads);
            let unreadable = parts.iter().flat_map(|part| &part.unreadable).map(|value| &value.key[..]);
            assert_eq!(
                unreadable.collect::<Vec<_>>(),
                ["/registry/pods/ns/p0400", "/registry/pods/ns/p0900"]
            );
            assert_eq!(names(parts).len(), 998);
        }
    }

    #[test]
    fn a_filled_kind_is_as_if_its_objects_had_come_one_by_one() {
        let items = many();
        let (kinds, unreadable) = kinds(&Kinds::built_in(), &items, 9);
        assert_eq!(unreadable, []);
        let filled = &kinds["/registry/pods"];
        let mut grown = Kind::of(&[], 9);
        for entry in entries(&Kinds::built_in(), &items).entries {
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
