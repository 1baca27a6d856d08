//! The checker of legality (§5.1): whether a log of requests, answers and deliveries is one that a correct cluster of several
//! kube-apiservers on one etcd can show. It knows nothing of faults, caches and plans: only of what was written and what clients saw. Pure.

pub mod observed;

use crate::request::{EventType, Version};
use std::collections::BTreeMap;
use std::fmt;

/// What a history of a cluster and its clients was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Changes of objects, in the order of their revisions; a revision may have several.
    pub changes: Vec<Change>,
    /// Oldest revision that could be read at the end.
    pub compacted: i64,
    /// GETs and lists.
    pub reads: Vec<Read>,
    /// Watches.
    pub watches: Vec<WatchLog>,
    /// Writes that were asked for.
    pub writes: Vec<WriteLog>,
}

/// A change of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Revision.
    pub revision: i64,
    /// Kind.
    pub resource: String,
    /// Namespace and name.
    pub object: String,
    /// Whether the object exists afterwards.
    pub exists: bool,
}

/// A GET or a list of all objects of a kind that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Position, for problems.
    pub n: u64,
    /// Kind.
    pub resource: String,
    /// State that was asked for.
    pub version: Version,
    /// Newest revision whose write was answered before the read began.
    pub began: i64,
    /// Newest revision when the read was answered.
    pub ended: i64,
    /// HTTP status.
    pub code: u16,
    /// Revision of the list; of a GET, that of the object.
    pub revision: i64,
    /// Objects and their revisions, for lists.
    pub objects: BTreeMap<String, i64>,
    /// Whether it is a list.
    pub is_list: bool,
}

/// A watch of all objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchLog {
    /// Position, for problems.
    pub n: u64,
    /// Kind.
    pub resource: String,
    /// State or revision that was asked for.
    pub version: Version,
    /// Whether it asked for the initial state as events with a bookmark at its end.
    pub sends_initial_events: bool,
    /// Newest revision whose write was answered before the watch began.
    pub began: i64,
    /// Newest revision when the watch ended.
    pub ended: i64,
    /// What was delivered, in order.
    pub events: Vec<Delivered>,
}

/// An event that a client got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Type.
    pub kind: EventType,
    /// Namespace and name; empty in bookmarks and errors.
    pub object: String,
    /// Revision; of an error its code.
    pub revision: i64,
    /// Whether the bookmark is marked as the end of the initial state.
    pub is_initial_end: bool,
}

/// A write that a client asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteLog {
    /// Position, for problems.
    pub n: u64,
    /// Kind.
    pub resource: String,
    /// Namespace and name.
    pub object: String,
    /// The `resourceVersion` that was sent; 0: none.
    pub sent: i64,
    /// Newest revision when it was answered.
    pub ended: i64,
    /// HTTP status; 0: no answer arrived.
    pub code: u16,
    /// Revision of the object in the answer; 0: none.
    pub revision: i64,
    /// Revision at which it was performed; 0: it was not.
    pub performed: i64,
    /// Whether the refusal says that nothing happened: 429, or an error before the request was performed.
    pub is_refused_before: bool,
}

/// Something that no correct cluster shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Illegality {
    /// The rule.
    pub rule: Rule,
    /// The position of the request.
    pub n: u64,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Illegality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}: {:?}: {}", self.n, self.rule, self.what)
    }
}

/// The rules, as rows of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A read without `resourceVersion` shows each write that was answered before it began.
    ConsistentRead,
    /// A read of any state shows one that is retained, and none of the future.
    AnyState,
    /// A read of at least a revision shows no older one.
    NotOlderThan,
    /// A read of exactly a revision shows that one.
    Exact,
    /// A list shows the state at its revision: no object of another, none more, none less.
    OneState,
    /// Within a watch revisions ascend.
    Order,
    /// Within a watch there is no gap, and no change is left out or merged with another.
    Gap,
    /// An event is a change that happened, with its type.
    Invented,
    /// A bookmark is not beyond what was delivered.
    EarlyBookmark,
    /// The initial state of a watch that asks for the newest one is not older than its beginning, and ends with one marked bookmark.
    InitialEvents,
    /// 410 has a reason: the revision is not the newest.
    Expired,
    /// 409 has a newer object behind it.
    Conflict,
    /// A refusal that says that nothing happened is true.
    RefusedAndDone,
    /// A successful answer of a write is true.
    AnsweredAndNotDone,
    /// No revision goes down or is of the future.
    Revision,
}

/// Everything in a history that no correct cluster shows; empty if it is legal.
pub fn check(history: &History) -> Vec<Illegality> {
    let mut found = Vec::new();
    let state = States::of(history);
    check_changes(history, &mut found);
    history.reads.iter().for_each(|read| check_read(&state, read, &mut found));
    history.watches.iter().for_each(|watch| check_watch(&state, watch, &mut found));
    history.writes.iter().for_each(|write| check_write(&state, write, &mut found));
    found
}

/// The states of a history by kind.
struct States<'h> {
    /// Changes of each kind, by revision.
    kinds: BTreeMap<&'h str, Vec<&'h Change>>,
    compacted: i64,
}

impl<'h> States<'h> {
    fn of(history: &'h History) -> Self {
        let mut kinds: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
        for change in &history.changes {
            kinds.entry(&change.resource).or_default().push(change);
        }
        Self { kinds, compacted: history.compacted }
    }

    fn changes(&self, resource: &str) -> &[&'h Change] {
        self.kinds.get(resource).map_or(&[], Vec::as_slice)
    }

    /// Objects of a kind at a revision, with the revision of each.
    fn at(&self, resource: &str, revision: i64) -> BTreeMap<String, i64> {
        let mut objects = BTreeMap::new();
        for change in self.changes(resource).iter().take_while(|change| change.revision <= revision) {
            match change.exists {
                true => objects.insert(change.object.clone(), change.revision),
                false => objects.remove(&change.object),
            };
        }
        objects
    }

    /// The newest revision of a kind that is not beyond another one.
    fn newest(&self, resource: &str, revision: i64) -> i64 {
        let changes = self.changes(resource);
        let before = changes.partition_point(|change| change.revision <= revision);
        before.checked_sub(1).map_or(0, |last| changes[last].revision)
    }
}

fn illegal(found: &mut Vec<Illegality>, rule: Rule, n: u64, what: impl Into<String>) {
    found.push(Illegality { rule, n, what: what.into() });
}

fn check_changes(history: &History, found: &mut Vec<Illegality>) {
    for pair in history.changes.windows(2) {
        if pair[1].revision < pair[0].revision {
            let what = format!("revision {} follows {}", pair[1].revision, pair[0].revision);
            illegal(found, Rule::Revision, 0, what);
        }
    }
}

fn check_read(state: &States<'_>, read: &Read, found: &mut Vec<Illegality>) {
    if read.code != 200 {
        if read.code == 410 && matches!(read.version, Version::Unset | Version::Any) {
            illegal(found, Rule::Expired, read.n, "a read of no certain revision is never expired");
        }
        return;
    }
    if read.revision > read.ended {
        illegal(found, Rule::Revision, read.n, format!("revision {} is of the future", read.revision));
    }
    if !read.is_list {
        return check_get(state, read, found);
    }
    let revision = read.revision;
    match read.version {
        Version::Unset if revision < read.began => {
            let what =
                format!("revision {revision} misses a write at {}, which was answered before", read.began);
            illegal(found, Rule::ConsistentRead, read.n, what);
        }
        Version::Any if revision < state.compacted => {
            illegal(found, Rule::AnyState, read.n, format!("revision {revision} is compacted"));
        }
        Version::Min(least) if revision < least => {
            illegal(found, Rule::NotOlderThan, read.n, format!("revision {revision} is older than {least}"));
        }
        Version::Exact(exact) if revision != exact => {
            illegal(found, Rule::Exact, read.n, format!("revision {revision} is not {exact}"));
        }
        _ => {}
    }
    let expected = state.at(&read.resource, revision);
    if expected != read.objects {
        let what = format!("at revision {revision} there are {expected:?}, and not {:?}", read.objects);
        illegal(found, Rule::OneState, read.n, what);
    }
}

/// Checks a GET, whose kind has all changes of its object. A page of a list shows no more than that its revision is not of the future.
fn check_get(state: &States<'_>, read: &Read, found: &mut Vec<Illegality>) {
    let mut objects = read.objects.iter();
    let (Some((object, revision)), None) = (objects.next(), objects.next()) else { return };
    let (rule, least) = match read.version {
        Version::Unset => (Rule::ConsistentRead, read.began),
        Version::Min(least) | Version::Exact(least) => (Rule::NotOlderThan, least),
        Version::Any => (Rule::AnyState, 0),
    };
    let of_object = || state.changes(&read.resource).iter().filter(|change| change.object == *object);
    if !of_object().any(|change| change.revision == *revision && change.exists) {
        illegal(found, Rule::Invented, read.n, format!("there is no {object} at revision {revision}"));
    } else if let Some(missed) =
        of_object().find(|change| change.revision > *revision && change.revision <= least)
    {
        illegal(
            found,
            rule,
            read.n,
            format!("{object} at revision {revision} misses its change at {}", missed.revision),
        );
    }
}

/// What a watch has shown so far.
struct Shown {
    /// Objects that the client has.
    objects: BTreeMap<String, i64>,
    /// Revision up to which everything was delivered.
    upto: i64,
    /// Changes of the kind that were delivered or are before the beginning.
    place: usize,
}

fn check_watch(state: &States<'_>, watch: &WatchLog, found: &mut Vec<Illegality>) {
    let has_state = !matches!(watch.version, Version::Min(_)) || watch.sends_initial_events;
    let Some((mut shown, rest)) = (match has_state {
        true => initial(state, watch, found),
        false => {
            let Version::Min(from) = watch.version else { return };
            let changes = state.changes(&watch.resource);
            let place = changes.partition_point(|change| change.revision <= from);
            Some((Shown { objects: state.at(&watch.resource, from), upto: from, place }, &watch.events[..]))
        }
    }) else {
        return;
    };
    for event in rest {
        match event.kind {
            EventType::Error => check_error(state, watch, event, found),
            EventType::Bookmark => check_bookmark(state, watch, event, &mut shown, found),
            _ => check_event(state, watch, event, &mut shown, found),
        }
    }
}

/// Checks the initial state of a watch. Returns what it showed, and the events after it; `None` if the watch ended within.
fn initial<'w>(
    state: &States<'_>,
    watch: &'w WatchLog,
    found: &mut Vec<Illegality>,
) -> Option<(Shown, &'w [Delivered])> {
    if let Some(error) = watch.events.iter().position(|event| event.kind == EventType::Error)
        && watch.events[..error].iter().all(|event| event.kind != EventType::Bookmark)
    {
        // Refused before the initial state was complete: a server that was not far enough says so.
        check_error(state, watch, &watch.events[error], found);
        return None;
    }
    let is_state = |objects: &BTreeMap<String, i64>| {
        // The states of the kind: one for each of its revisions, and the empty one.
        let revisions = state.changes(&watch.resource).iter().map(|change| change.revision);
        let mut states = std::iter::once(0).chain(revisions).filter(|revision| *revision <= watch.ended);
        states.find(|revision| state.at(&watch.resource, *revision) == *objects)
    };
    if !watch.sends_initial_events {
        return initial_unmarked(state, watch, found);
    }
    let mark = watch.events.iter().position(|event| event.is_initial_end)?;
    let objects: BTreeMap<String, i64> = watch.events[..mark]
        .iter()
        .filter(|event| event.kind == EventType::Added)
        .map(|event| (event.object.clone(), event.revision))
        .collect();
    let at = watch.events[mark].revision;
    if watch.events[..mark].iter().any(|event| event.kind != EventType::Added) || is_state(&objects).is_none()
    {
        illegal(found, Rule::InitialEvents, watch.n, format!("{objects:?} was never the state"));
    } else if state.at(&watch.resource, at) != objects {
        illegal(found, Rule::InitialEvents, watch.n, format!("the state at {at} is not {objects:?}"));
    }
    let least = match watch.version {
        Version::Unset => state.newest(&watch.resource, watch.began).max(watch.began),
        Version::Min(least) | Version::Exact(least) => least,
        Version::Any => state.compacted,
    };
    if at < least {
        illegal(
            found,
            Rule::InitialEvents,
            watch.n,
            format!("the initial state at {at} is older than {least}"),
        );
    }
    if watch.events[mark + 1..].iter().any(|event| event.is_initial_end) {
        illegal(found, Rule::InitialEvents, watch.n, "the initial state ends twice");
    }
    let place = state.changes(&watch.resource).partition_point(|change| change.revision <= at);
    Some((Shown { objects, upto: at, place }, &watch.events[mark + 1..]))
}

/// The initial state of a watch without a mark: the longest beginning of ADDED events that was a state.
fn initial_unmarked<'w>(
    state: &States<'_>,
    watch: &'w WatchLog,
    found: &mut Vec<Illegality>,
) -> Option<(Shown, &'w [Delivered])> {
    let changes = state.changes(&watch.resource);
    let length = watch.events.iter().take_while(|event| event.kind == EventType::Added).count();
    let revisions: Vec<i64> = std::iter::once(0)
        .chain(changes.iter().map(|change| change.revision))
        .filter(|revision| *revision <= watch.ended)
        .collect();
    for length in (0..=length).rev() {
        let (begin, rest) = watch.events.split_at(length);
        let objects: BTreeMap<String, i64> =
            begin.iter().map(|event| (event.object.clone(), event.revision)).collect();
        for at in revisions.iter().rev() {
            if state.at(&watch.resource, *at) != objects || objects.len() != length {
                continue;
            }
            let place = changes.partition_point(|change| change.revision <= *at);
            let next =
                rest.iter().find(|event| !matches!(event.kind, EventType::Bookmark | EventType::Error));
            let follows = next.is_none_or(|event| {
                changes.get(place).is_some_and(|change| change.revision == event.revision)
            });
            if follows {
                return Some((Shown { objects, upto: *at, place }, rest));
            }
        }
    }
    // The client left, or the watch broke, within the initial state.
    let all: BTreeMap<_, _> =
        watch.events.iter().map(|event| (event.object.clone(), event.revision)).collect();
    let is_part = revisions.iter().any(|at| {
        let whole = state.at(&watch.resource, *at);
        all.iter().all(|(object, revision)| whole.get(object) == Some(revision))
    });
    if !is_part || length < watch.events.len() {
        illegal(found, Rule::Invented, watch.n, "the watch begins with no state of its kind");
    }
    None
}

fn check_event(
    state: &States<'_>,
    watch: &WatchLog,
    event: &Delivered,
    shown: &mut Shown,
    found: &mut Vec<Illegality>,
) {
    let what = format!("{:?} {} at {}", event.kind, event.object, event.revision);
    if event.revision < shown.upto {
        return illegal(found, Rule::Order, watch.n, format!("{what} after {}", shown.upto));
    }
    let changes = state.changes(&watch.resource);
    let is_it = |change: &&&Change| change.revision == event.revision && change.object == event.object;
    let Some(change) = changes.iter().find(is_it) else {
        return illegal(found, Rule::Invented, watch.n, format!("{what} never happened"));
    };
    let expected = match (shown.objects.contains_key(&event.object), change.exists) {
        (_, false) => EventType::Deleted,
        (true, true) => EventType::Modified,
        (false, true) => EventType::Added,
    };
    // Changes of one revision may come in any order, so the next one is any of the next revision.
    let next = changes.get(shown.place).map(|change| change.revision);
    let is_next = next == Some(event.revision) || shown.upto == event.revision;
    if !is_next {
        let missed = next.map_or("nothing".to_owned(), |revision| revision.to_string());
        illegal(found, Rule::Gap, watch.n, format!("{what}, and the next change is {missed}"));
    } else if event.kind != expected {
        illegal(found, Rule::Invented, watch.n, format!("{what} is {expected:?}"));
    }
    match change.exists {
        true => shown.objects.insert(event.object.clone(), event.revision),
        false => shown.objects.remove(&event.object),
    };
    shown.upto = event.revision;
    let behind = changes.partition_point(|change| change.revision < event.revision);
    shown.place = shown.place.max(behind) + 1;
}

fn check_bookmark(
    state: &States<'_>,
    watch: &WatchLog,
    event: &Delivered,
    shown: &mut Shown,
    found: &mut Vec<Illegality>,
) {
    if event.revision < shown.upto {
        return illegal(
            found,
            Rule::Order,
            watch.n,
            format!("a bookmark at {} after {}", event.revision, shown.upto),
        );
    }
    if event.revision > watch.ended {
        return illegal(
            found,
            Rule::Revision,
            watch.n,
            format!("a bookmark at {} is of the future", event.revision),
        );
    }
    let missed =
        state.changes(&watch.resource).get(shown.place).filter(|change| change.revision <= event.revision);
    if let Some(missed) = missed {
        let what = format!("a bookmark at {} before the change at {}", event.revision, missed.revision);
        illegal(found, Rule::EarlyBookmark, watch.n, what);
    }
    shown.upto = event.revision;
}

fn check_error(state: &States<'_>, watch: &WatchLog, event: &Delivered, found: &mut Vec<Illegality>) {
    let Version::Min(from) = watch.version else {
        if event.revision == 410 && watch.events.first() == Some(event) {
            illegal(found, Rule::Expired, watch.n, "a watch of no certain revision does not begin expired");
        }
        return;
    };
    // A window of changes that is short, or compaction: either needs a newer revision.
    if event.revision == 410 && from >= watch.ended && from >= state.compacted {
        illegal(found, Rule::Expired, watch.n, format!("revision {from} is the newest, and not too old"));
    }
}

fn check_write(state: &States<'_>, write: &WriteLog, found: &mut Vec<Illegality>) {
    let of_object =
        || state.changes(&write.resource).iter().filter(move |change| change.object == write.object);
    match write.code {
        409 if write.sent > 0 => {
            let is_newer = |change: &&&Change| change.revision > write.sent && change.revision <= write.ended;
            let is_known = of_object().any(|change| change.revision == write.sent && change.exists);
            if !of_object().any(|change| is_newer(&change)) && is_known {
                let what = format!("nothing changed {} after revision {}", write.object, write.sent);
                illegal(found, Rule::Conflict, write.n, what);
            }
        }
        code if write.is_refused_before && write.performed > 0 => {
            let what = format!("answered with {code}, and performed at revision {}", write.performed);
            illegal(found, Rule::RefusedAndDone, write.n, what);
        }
        200..=299 if write.revision > 0 => {
            // An update that removes the last finalizer of an object under deletion is answered with the revision of its end.
            let may_end = write.code == 200;
            if !of_object().any(|change| change.revision == write.revision && (change.exists || may_end)) {
                let what = format!("there is no {} at revision {}", write.object, write.revision);
                illegal(found, Rule::AnsweredAndNotDone, write.n, what);
            }
            if write.revision > write.ended {
                illegal(
                    found,
                    Rule::Revision,
                    write.n,
                    format!("revision {} is of the future", write.revision),
                );
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
