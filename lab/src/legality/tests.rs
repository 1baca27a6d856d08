//! The checker accepts what servers with lagging caches show, and rejects each of a table of histories that no server shows.

use super::*;
use crate::cache::answer::{CacheAnswer, answer};
use crate::request::{RequestTarget, Verb};
use EventType::{Added, Bookmark, Deleted, Error, Modified};
use kstore_nondet::Rng;

const KIND: &str = "configmaps";

fn change(revision: i64, object: &str, exists: bool) -> Change {
    Change { revision, resource: KIND.to_owned(), object: object.to_owned(), exists }
}

fn event(kind: EventType, object: &str, revision: i64) -> Delivered {
    Delivered { kind, object: object.to_owned(), revision, is_initial_end: false }
}

fn mark(revision: i64) -> Delivered {
    Delivered { is_initial_end: true, ..event(EventType::Bookmark, "", revision) }
}

fn list(n: u64, version: Version, began: i64, revision: i64, objects: &[(&str, i64)]) -> Read {
    let objects = objects.iter().map(|(name, revision)| ((*name).to_owned(), *revision)).collect();
    let resource = KIND.to_owned();
    Read { n, resource, version, began, ended: 20, code: 200, revision, objects, is_list: true }
}

fn watch(n: u64, version: Version, sends_initial_events: bool, events: Vec<Delivered>) -> WatchLog {
    let resource = KIND.to_owned();
    WatchLog { n, resource, version, sends_initial_events, began: 12, ended: 20, events }
}

fn write(n: u64, object: &str, sent: i64, code: u16, revision: i64, performed: i64) -> WriteLog {
    let (resource, object) = (KIND.to_owned(), object.to_owned());
    let is_refused_before = code == 429 || code == 500;
    WriteLog { n, resource, object, sent, ended: 20, code, revision, performed, is_refused_before }
}

/// a is created at 5, changed at 8, deleted at 14 and created again at 16; b is created at 10, changed at 12; 20 is the newest revision.
fn legal() -> History {
    let changes = vec![
        change(5, "a", true),
        change(8, "a", true),
        change(10, "b", true),
        change(12, "b", true),
        change(14, "a", false),
        change(16, "a", true),
        change(20, "b", true),
    ];
    let reads = vec![
        list(0, Version::Unset, 12, 13, &[("a", 8), ("b", 12)]),
        list(1, Version::Any, 12, 9, &[("a", 8)]),
        list(2, Version::Min(10), 12, 11, &[("a", 8), ("b", 10)]),
        list(3, Version::Exact(6), 12, 6, &[("a", 5)]),
        Read { code: 410, ..list(4, Version::Exact(2), 12, 0, &[]) },
        Read { code: 504, ..list(5, Version::Min(30), 12, 0, &[]) },
    ];
    let from_8 = vec![
        event(Added, "b", 10),
        event(Modified, "b", 12),
        event(Bookmark, "", 13),
        event(Deleted, "a", 14),
        event(Added, "a", 16),
    ];
    let initial = vec![event(Added, "a", 8), event(Added, "b", 12), mark(12), event(Deleted, "a", 14)];
    let stale = vec![event(Added, "a", 5), event(Modified, "a", 8), event(Added, "b", 10)];
    let watches = vec![
        watch(10, Version::Min(8), false, from_8),
        watch(11, Version::Unset, true, initial),
        watch(12, Version::Any, false, stale),
        watch(13, Version::Min(8), false, vec![event(Error, "", 410)]),
        watch(14, Version::Any, true, vec![event(Added, "a", 5), mark(7)]),
        watch(15, Version::Unset, true, vec![event(Error, "", 504)]),
    ];
    let writes = vec![
        write(20, "a", 5, 200, 8, 8),
        write(21, "a", 5, 409, 0, 0),
        write(22, "b", 10, 429, 0, 0),
        write(23, "b", 10, 504, 0, 12),
        write(24, "b", 12, 500, 0, 0),
        // The update that removed the last finalizer.
        write(25, "a", 8, 200, 14, 14),
    ];
    let get = |n, version, object: &str, revision| Read {
        is_list: false,
        ..list(n, version, 12, revision, &[(object, revision)])
    };
    let reads = [reads, vec![get(6, Version::Unset, "a", 8), get(7, Version::Min(10), "b", 10)]].concat();
    History { changes, compacted: 5, reads, watches, writes }
}

/// Changes a part of the history.
type Mutation = (&'static str, Rule, fn(&mut History));

/// Histories that no server shows, each one change away from a legal one, with the rule that rejects it.
const MUTATIONS: [Mutation; 36] = [
    ("a consistent read misses an answered write", Rule::ConsistentRead, |h| {
        h.reads[0] = list(0, Version::Unset, 12, 11, &[("a", 8), ("b", 10)]);
    }),
    ("a consistent read of the future", Rule::Revision, |h| h.reads[0].revision = 21),
    ("any state before the oldest one", Rule::AnyState, |h| {
        h.reads[1] = list(1, Version::Any, 12, 4, &[]);
    }),
    ("an older state than asked for", Rule::NotOlderThan, |h| {
        h.reads[2] = list(2, Version::Min(10), 12, 9, &[("a", 8)]);
    }),
    ("another state than exactly asked for", Rule::Exact, |h| h.reads[3].revision = 7),
    ("an object of an older revision in a list", Rule::OneState, |h| {
        h.reads[0].objects.insert("b".to_owned(), 10);
    }),
    ("an object of a newer revision in a list", Rule::OneState, |h| {
        h.reads[1].objects.insert("a".to_owned(), 16);
    }),
    ("an object missing in a list", Rule::OneState, |h| _ = h.reads[0].objects.remove("a")),
    ("an object that is not there yet in a list", Rule::OneState, |h| {
        h.reads[1].objects.insert("b".to_owned(), 10);
    }),
    ("an object that never was in a list", Rule::OneState, |h| {
        h.reads[0].objects.insert("c".to_owned(), 9);
    }),
    ("a consistent GET misses an answered write", Rule::ConsistentRead, |h| h.reads[6].began = 14),
    ("a GET of an older state than asked for", Rule::NotOlderThan, |h| h.reads[7].version = Version::Min(12)),
    ("a GET of an object as it never was", Rule::Invented, |h| {
        h.reads[6].objects.insert("a".to_owned(), 9);
    }),
    ("410 on a read of any state", Rule::Expired, |h| h.reads[1].code = 410),
    ("410 on a consistent read", Rule::Expired, |h| h.reads[0].code = 410),
    ("an event left out", Rule::Gap, |h| drop(h.watches[0].events.remove(0))),
    ("two changes merged into one event", Rule::Gap, |h| {
        h.watches[0].events.splice(0..2, [event(Added, "b", 12)]);
    }),
    ("two events swapped", Rule::Gap, |h| h.watches[0].events.swap(0, 1)),
    ("an event repeated later", Rule::Order, |h| {
        let first = h.watches[0].events[0].clone();
        h.watches[0].events.push(first);
    }),
    ("an event from before the beginning", Rule::Order, |h| {
        h.watches[0].events.insert(0, event(Modified, "a", 5));
    }),
    ("an event that never happened", Rule::Invented, |h| {
        h.watches[0].events.push(event(Modified, "a", 18));
    }),
    ("an event of the future", Rule::Invented, |h| h.watches[0].events.push(event(Modified, "b", 22))),
    ("an added object as modified", Rule::Invented, |h| h.watches[0].events[0].kind = Modified),
    ("a modified object as added", Rule::Invented, |h| h.watches[0].events[1].kind = Added),
    ("a change as a deletion", Rule::Invented, |h| h.watches[0].events[1].kind = Deleted),
    ("a deletion as a change", Rule::Invented, |h| h.watches[0].events[3].kind = Modified),
    ("a bookmark beyond what was delivered", Rule::EarlyBookmark, |h| {
        h.watches[0].events[2] = event(Bookmark, "", 14);
    }),
    ("a bookmark that goes back", Rule::Order, |h| h.watches[0].events[2] = event(Bookmark, "", 9)),
    ("a bookmark of the future", Rule::Revision, |h| {
        h.watches[0].events.push(event(Bookmark, "", 21));
    }),
    ("a newest initial state that is stale", Rule::InitialEvents, |h| {
        h.watches[1].events.splice(0..4, [event(Added, "a", 8), event(Added, "b", 10), mark(11)]);
    }),
    ("an initial state that never was", Rule::InitialEvents, |h| {
        h.watches[1].events[0] = event(Added, "a", 5);
    }),
    ("an initial state that ends twice", Rule::InitialEvents, |h| h.watches[1].events.insert(3, mark(12))),
    ("410 on the newest revision", Rule::Expired, |h| h.watches[3].version = Version::Min(20)),
    ("410 at the beginning of a watch of any state", Rule::Expired, |h| {
        h.watches[4].events = vec![event(Error, "", 410)];
    }),
    ("409 although nothing changed", Rule::Conflict, |h| h.writes[1] = write(21, "b", 20, 409, 0, 0)),
    ("429 of a write that was performed", Rule::RefusedAndDone, |h| h.writes[2].performed = 12),
];

#[test]
fn mutated_histories_are_rejected() {
    assert_eq!(check(&legal()), []);
    for (name, rule, mutate) in MUTATIONS {
        let mut history = legal();
        mutate(&mut history);
        let found = check(&history);
        assert!(found.iter().any(|one| one.rule == rule), "{name}: {found:?}");
    }
    let mut history = legal();
    history.writes[0].revision = 9;
    assert_eq!(check(&history)[0].rule, Rule::AnsweredAndNotDone);
    history = legal();
    history.writes[5].code = 201;
    assert_eq!(check(&history)[0].rule, Rule::AnsweredAndNotDone, "a created object is there");
    history = legal();
    history.changes.swap(0, 1);
    assert!(check(&history).iter().any(|one| one.rule == Rule::Revision));
}

/// A random history of two kinds.
fn random_changes(rng: &Rng) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let mut revision = 1;
    for _ in 0..5 + rng.below(30) {
        revision += 1 + i64::try_from(rng.below(3)).unwrap();
        let resource = if rng.unit() < 0.7 { KIND } else { "secrets" };
        let object = format!("o{}", rng.below(4));
        let is_there = |change: &&Change| change.resource == resource && change.object == object;
        let was = changes.iter().rev().find(is_there).is_some_and(|change| change.exists);
        let exists = !was || rng.unit() < 0.7;
        changes.push(Change { revision, resource: resource.to_owned(), object, exists });
    }
    changes
}

/// The events of a watch that has shown the state at `from`, up to `upto`.
fn events(changes: &[Change], from: i64, upto: i64) -> Vec<Delivered> {
    let history = History { changes: changes.to_vec(), ..History::default() };
    let states = States::of(&history);
    let mut objects = states.at(KIND, from);
    let mut out = Vec::new();
    for change in
        states.changes(KIND).iter().filter(|change| change.revision > from && change.revision <= upto)
    {
        let kind = match (objects.contains_key(&change.object), change.exists) {
            (_, false) => EventType::Deleted,
            (true, true) => EventType::Modified,
            (false, true) => EventType::Added,
        };
        objects.insert(change.object.clone(), change.revision);
        if !change.exists {
            objects.remove(&change.object);
        }
        out.push(event(kind, &change.object, change.revision));
    }
    out
}

/// What a client sees of a cache that stands anywhere and then moves on: by the pure rule that the lab uses.
fn random_history(rng: &Rng) -> History {
    let changes = random_changes(rng);
    let newest = changes.last().map_or(0, |change| change.revision);
    let within =
        |least: i64| least + i64::try_from(rng.below(u64::try_from(newest - least + 1).unwrap())).unwrap();
    let mut history = History { compacted: 1, changes, ..History::default() };
    for n in 0..12 {
        let (stands_at, head) = (within(1), newest);
        let began = within(1);
        let revision = within(1);
        let version =
            [Version::Unset, Version::Any, Version::Min(revision)][usize::try_from(rng.below(3)).unwrap()];
        let sends_initial_events = rng.unit() < 0.3;
        let verb = if rng.unit() < 0.5 { Verb::List } else { Verb::Watch };
        let target = RequestTarget {
            verb,
            resource: KIND.to_owned(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            version,
            sends_initial_events,
        };
        let at = match answer(Some(stands_at), head, &target, false) {
            CacheAnswer::Server => head,
            CacheAnswer::At(revision) => revision,
            // The cache has moved on meanwhile, as far as was asked or further; or the read was refused.
            CacheAnswer::WaitFor(revision) => within(revision),
        };
        let states = States::of(&history);
        let objects = states.at(KIND, at);
        if verb == Verb::List {
            let resource = KIND.to_owned();
            let read = Read {
                n,
                resource,
                version,
                began,
                ended: head,
                code: 200,
                revision: at,
                objects,
                is_list: true,
            };
            history.reads.push(read);
            continue;
        }
        let upto = within(at.min(newest));
        let added = || objects.iter().map(|(name, revision)| event(EventType::Added, name, *revision));
        let mut seen: Vec<Delivered> = match version {
            Version::Min(from) if !sends_initial_events => events(&history.changes, from, upto.max(from)),
            _ => {
                let mark = sends_initial_events.then(|| mark(at));
                added().chain(mark).chain(events(&history.changes, at, upto)).collect()
            }
        };
        // A watch may be cut anywhere after its initial state.
        let least = seen.iter().position(|event| event.is_initial_end).map_or(objects.len(), |mark| mark + 1);
        let keep = least + usize::try_from(rng.below(8)).unwrap();
        seen.truncate(keep.max(least));
        let resource = KIND.to_owned();
        history.watches.push(WatchLog {
            n,
            resource,
            version,
            sends_initial_events,
            began,
            ended: head,
            events: seen,
        });
    }
    history
}

#[test]
fn ten_thousand_random_histories_of_lagging_caches_are_legal() {
    for seed in 0..10_000 {
        let history = random_history(&Rng::seeded(seed));
        let found = check(&history);
        assert!(found.is_empty(), "seed {seed}: {} in {history:#?}", found[0]);
    }
}
