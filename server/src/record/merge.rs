//! [`Merger`]: the changes of several watches as commits in the order of their revisions. Pure: the time is an argument.
//!
//! A change is ready when every watch has passed its revision, or at the latest after a given time. A change that comes later than that
//! has a later revision than in its source; so the commits of the merger never go back, and the states of each object keep their order.

use super::limits::PENDING_CHANGES;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// A change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change<T> {
    /// The object has this state.
    Put(T),
    /// The object was deleted.
    Delete,
}

/// The changes of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Commit<T> {
    pub(super) revision: i64,
    /// The changes by key.
    pub(super) changes: BTreeMap<String, Change<T>>,
    /// When the first of them arrived, since the start of the recording.
    pub(super) arrival: Duration,
    /// Whether a change has an older revision in its source.
    pub(super) is_late: bool,
    /// How long the recorder had missed changes, if the commit is the difference between the states before and after that period.
    pub(super) gap: Option<Duration>,
}

/// The number of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WatchId(usize);

/// How far a watch is.
#[derive(Debug)]
struct WatchPosition {
    /// All changes up to this revision were delivered.
    complete: i64,
    /// The newest delivered revision, and the keys that changed in it.
    newest: i64,
    at_newest: BTreeSet<String>,
    /// The objects of the watch that exist, with the revisions of their states in the source.
    known: BTreeMap<String, i64>,
    /// The objects of a list that has not ended.
    listed: BTreeSet<String>,
}

/// Merges watches.
#[derive(Debug)]
pub(super) struct Merger<T> {
    reorder: Duration,
    /// The newest revision that was returned.
    returned: i64,
    watches: Vec<WatchPosition>,
    pending: BTreeMap<i64, Commit<T>>,
    /// The revisions of pending changes, in the order of arrival.
    arrivals: VecDeque<(Duration, i64)>,
    /// The keys whose newest pending change has a later revision than in the source, with that revision.
    moved: BTreeMap<String, i64>,
}

impl<T> Merger<T> {
    /// A merger of changes after a revision, which returns each at the latest this long after its arrival.
    pub(super) fn new(revision: i64, reorder: Duration) -> Self {
        Self {
            reorder,
            returned: revision,
            watches: Vec::new(),
            pending: BTreeMap::new(),
            arrivals: VecDeque::new(),
            moved: BTreeMap::new(),
        }
    }

    /// Adds a watch that begins after a revision, at which these objects exist with the revisions of their states.
    pub(super) fn add_watch(&mut self, revision: i64, known: BTreeMap<String, i64>) -> WatchId {
        self.watches.push(WatchPosition {
            complete: revision,
            newest: revision,
            at_newest: BTreeSet::new(),
            known,
            listed: BTreeSet::new(),
        });
        WatchId(self.watches.len() - 1)
    }

    /// Adds a change that a watch delivered. Changes that it delivered before are ignored, as are deletions of unknown objects. Returns
    /// whether the change is a new one.
    pub(super) fn change(
        &mut self,
        watch: WatchId,
        revision: i64,
        key: String,
        change: Change<T>,
        arrival: Duration,
    ) -> bool {
        let position = &mut self.watches[watch.0];
        if revision <= position.complete || revision < position.newest {
            return false;
        }
        if revision > position.newest {
            position.newest = revision;
            position.at_newest.clear();
            // More changes of this revision may follow, and none of an older one.
            position.complete = position.complete.max(revision - 1);
        }
        if !position.at_newest.insert(key.clone()) {
            return false;
        }
        let was_known = match &change {
            Change::Put(_) => position.known.insert(key.clone(), revision).is_some(),
            Change::Delete => position.known.remove(&key).is_some(),
        };
        if !was_known && matches!(change, Change::Delete) {
            return false;
        }
        self.insert(revision, key, change, arrival, None);
        true
    }

    /// Notes that a watch has delivered everything up to a revision.
    pub(super) fn progress(&mut self, watch: WatchId, revision: i64) {
        let position = &mut self.watches[watch.0];
        position.complete = position.complete.max(revision);
        position.newest = position.newest.max(revision);
    }

    /// Notes that a list of all objects of a watch begins, after a gap. A list before it that has no end counts no more.
    pub(super) fn list_begins(&mut self, watch: WatchId) {
        self.watches[watch.0].listed.clear();
    }

    /// Adds an object of a list at a revision, after a gap of this length: it is a change if the watch has not delivered this state.
    /// Returns whether it is one.
    pub(super) fn listed(
        &mut self,
        watch: WatchId,
        list: i64,
        (key, state, object): (String, i64, T),
        (gap, arrival): (Duration, Duration),
    ) -> bool {
        let position = &mut self.watches[watch.0];
        position.listed.insert(key.clone());
        let is_change = position.known.insert(key.clone(), state) != Some(state);
        if is_change {
            self.insert(list, key, Change::Put(object), arrival, Some(gap));
        }
        is_change
    }

    /// Ends a list at a revision: what it does not have was deleted in the gap. Returns the number of deletions.
    pub(super) fn list_ends(
        &mut self,
        watch: WatchId,
        revision: i64,
        (gap, arrival): (Duration, Duration),
    ) -> usize {
        let position = &mut self.watches[watch.0];
        let listed = std::mem::take(&mut position.listed);
        let gone: Vec<String> = position.known.keys().filter(|key| !listed.contains(*key)).cloned().collect();
        position.known.retain(|key, _| listed.contains(key));
        position.complete = position.complete.max(revision);
        position.newest = position.newest.max(revision);
        let count = gone.len();
        for key in gone {
            self.insert(revision, key, Change::Delete, arrival, Some(gap));
        }
        count
    }

    fn insert(
        &mut self,
        revision: i64,
        key: String,
        change: Change<T>,
        arrival: Duration,
        gap: Option<Duration>,
    ) {
        let after = self.moved.get(&key).map_or(i64::MIN, |moved| moved + 1);
        let at = revision.max(self.returned + 1).max(after);
        if at > revision {
            self.moved.insert(key.clone(), at);
        }
        let commit = self.pending.entry(at).or_insert_with(|| Commit {
            revision: at,
            changes: BTreeMap::new(),
            arrival,
            is_late: false,
            gap: None,
        });
        // A large difference after a gap is stored in several revisions, which its gap explains.
        commit.is_late |= at > revision && gap.is_none();
        commit.gap = commit.gap.max(gap);
        commit.changes.insert(key, change);
        self.arrivals.push_back((arrival, at));
    }

    /// The commits that are ready at this time since the start of the recording, the oldest first.
    pub(super) fn ready(&mut self, now: Duration) -> Vec<Commit<T>> {
        let passed = self.watches.iter().map(|watch| watch.complete).min().unwrap_or(i64::MAX);
        let mut bound = passed;
        while let Some((arrival, at)) = self.arrivals.front().copied() {
            let is_full = self.arrivals.len() > PENDING_CHANGES;
            if at > bound && arrival + self.reorder > now && !is_full {
                break;
            }
            bound = bound.max(at);
            self.arrivals.pop_front();
        }
        self.take(bound)
    }

    /// All commits that are left, the oldest first.
    pub(super) fn finish(&mut self) -> Vec<Commit<T>> {
        self.arrivals.clear();
        self.take(i64::MAX)
    }

    /// When the oldest change is ready at the latest, since the start of the recording.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.arrivals.front().map(|(arrival, _)| *arrival + self.reorder)
    }

    /// Whether all watches have passed a revision.
    pub(super) fn has_passed(&self, revision: i64) -> bool {
        self.watches.iter().all(|watch| watch.complete >= revision)
    }

    fn take(&mut self, bound: i64) -> Vec<Commit<T>> {
        let later = match bound.checked_add(1) {
            Some(next) => self.pending.split_off(&next),
            None => BTreeMap::new(),
        };
        let ready: Vec<_> = std::mem::replace(&mut self.pending, later).into_values().collect();
        if let Some(last) = ready.last() {
            self.returned = last.revision;
            self.moved.retain(|_, at| *at > last.revision);
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_nondet::Rng;

    const REORDER: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The revisions of commits, with their keys: `-` before a deletion, `!` before a late commit, `~` before a gap.
    fn shown(commits: &[Commit<i64>]) -> Vec<String> {
        let each = |commit: &Commit<i64>| {
            let keys = commit.changes.iter().map(|(key, change)| match change {
                Change::Put(value) => format!("{key}={value}"),
                Change::Delete => format!("-{key}"),
            });
            let marks = [(commit.is_late, "!"), (commit.gap.is_some(), "~")];
            let marks: String = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
            format!("{marks}{} {}", commit.revision, keys.collect::<Vec<_>>().join(" "))
        };
        commits.iter().map(each).collect()
    }

    fn put(merger: &mut Merger<i64>, watch: WatchId, revision: i64, key: &str, seconds: u64) -> bool {
        merger.change(watch, revision, key.to_owned(), Change::Put(revision), at(seconds))
    }

    #[test]
    fn a_change_waits_for_all_watches_or_for_the_longest_time() {
        let mut merger = Merger::new(10, REORDER);
        let (pods, nodes) = (merger.add_watch(10, BTreeMap::new()), merger.add_watch(10, BTreeMap::new()));
        assert!(put(&mut merger, pods, 12, "p", 1));
        assert_eq!(shown(&merger.ready(at(2))), [""; 0], "a node may have changed at 11");
        assert!(put(&mut merger, nodes, 11, "n", 2));
        assert_eq!(shown(&merger.ready(at(2))), [""; 0], "a second node may have changed at 11");
        merger.progress(nodes, 12);
        assert_eq!(shown(&merger.ready(at(2))), ["11 n=11"], "a second pod may have changed at 12");
        merger.progress(pods, 12);
        assert_eq!(shown(&merger.ready(at(2))), ["12 p=12"]);
        put(&mut merger, pods, 15, "p", 3);
        assert_eq!(merger.deadline(), Some(at(8)));
        assert_eq!(shown(&merger.ready(at(7))), [""; 0]);
        assert_eq!(shown(&merger.ready(at(8))), ["15 p=15"], "nodes are silent");
        put(&mut merger, nodes, 14, "n", 9);
        put(&mut merger, nodes, 16, "n", 9);
        assert_eq!(shown(&merger.finish()), ["!16 n=14", "!17 n=16"], "no state is lost, and none overtakes");
    }

    #[test]
    fn changes_that_are_delivered_again_are_ignored() {
        let mut merger = Merger::new(10, REORDER);
        let pods = merger.add_watch(10, BTreeMap::from([("old".to_owned(), 4)]));
        assert!(!put(&mut merger, pods, 10, "old", 0));
        assert!(put(&mut merger, pods, 11, "a", 0) && put(&mut merger, pods, 11, "b", 0));
        assert!(!put(&mut merger, pods, 11, "a", 1), "the watch was opened again before 11");
        assert!(put(&mut merger, pods, 11, "c", 1), "and had not delivered all of it");
        assert!(!merger.change(pods, 12, "none".to_owned(), Change::Delete, at(1)));
        assert!(merger.change(pods, 13, "old".to_owned(), Change::Delete, at(1)));
        assert!(!put(&mut merger, pods, 12, "d", 1));
        assert_eq!(shown(&merger.finish()), ["11 a=11 b=11 c=11", "13 -old"]);
    }

    /// Delivers a list after a gap; returns the number of changes.
    fn relist(
        merger: &mut Merger<i64>,
        (watch, revision): (WatchId, i64),
        objects: impl IntoIterator<Item = (String, i64)>,
        times: (Duration, Duration),
    ) -> usize {
        merger.list_begins(watch);
        let changed = objects
            .into_iter()
            .filter(|(key, at)| merger.listed(watch, revision, (key.clone(), *at, *at), times))
            .count();
        changed + merger.list_ends(watch, revision, times)
    }

    #[test]
    fn a_list_that_is_longer_than_the_reordering_is_stored_in_parts_and_begins_again_after_a_break() {
        let mut merger = Merger::new(10, REORDER);
        let known = [("a", 4), ("b", 5), ("gone", 6)].map(|(key, at)| (key.to_owned(), at));
        let pods = merger.add_watch(10, BTreeMap::from(known));
        let object = |key: &str, state: i64| (key.to_owned(), state, state);
        merger.list_begins(pods);
        assert!(merger.listed(pods, 20, object("a", 15), (at(12), at(1))));
        assert_eq!(shown(&merger.ready(at(9))), ["~20 a=15"]);
        // The list broke. The next one has "gone" no more, and does not store "a" again.
        merger.list_begins(pods);
        assert!(!merger.listed(pods, 30, object("a", 15), (at(20), at(9))));
        assert!(merger.listed(pods, 30, object("b", 25), (at(20), at(9))));
        assert_eq!(shown(&merger.ready(at(15))), ["~30 b=25"]);
        assert!(merger.listed(pods, 30, object("c", 26), (at(20), at(15))));
        assert_eq!(merger.list_ends(pods, 30, (at(20), at(15))), 1);
        assert_eq!(shown(&merger.ready(at(30))), ["~31 c=26 -gone"]);
    }

    #[test]
    fn a_list_after_a_gap_is_stored_as_the_difference() {
        let mut merger = Merger::new(10, REORDER);
        let known = [("same", 4), ("gone", 5), ("changed", 6)].map(|(key, at)| (key.to_owned(), at));
        let pods = merger.add_watch(10, BTreeMap::from(known));
        let objects = [("same", 4), ("changed", 18), ("new", 17)].map(|(key, at)| (key.to_owned(), at));
        assert_eq!(relist(&mut merger, (pods, 20), objects, (at(12), at(1))), 3);
        assert!(!put(&mut merger, pods, 20, "new", 1), "the list has it");
        assert!(put(&mut merger, pods, 21, "new", 1));
        assert_eq!(shown(&merger.finish()), ["~20 changed=18 -gone new=17", "21 new=21"]);
    }

    /// A cluster whose states are known, and its watches.
    struct Source {
        rng: Rng,
        /// The state of each key after each revision.
        states: Vec<BTreeMap<String, i64>>,
        /// The changes of each watch: revision, key, and whether the object exists then.
        changes: Vec<Vec<(i64, String, bool)>>,
    }

    const WATCHES: usize = 3;

    impl Source {
        fn random(seed: u64, revisions: i64) -> Self {
            let rng = Rng::seeded(seed);
            let (mut states, mut changes) = (vec![BTreeMap::new()], vec![Vec::new(); WATCHES]);
            for revision in 1..=revisions {
                let mut state: BTreeMap<String, i64> = states.last().cloned().unwrap_or_default();
                // Sometimes nothing that is watched changes, and sometimes several objects change together.
                for _ in 0..[0, 1, 1, 1, 2][usize::try_from(rng.below(5)).unwrap()] {
                    let watch = usize::try_from(rng.below(WATCHES as u64)).unwrap();
                    let key = format!("{watch}/{}", rng.below(4));
                    let changed: &mut Vec<(i64, String, bool)> = &mut changes[watch];
                    if changed.iter().any(|(at, other, _)| *at == revision && *other == key) {
                        continue;
                    }
                    let exists = !state.contains_key(&key) || rng.below(3) > 0;
                    match exists {
                        true => drop(state.insert(key.clone(), revision)),
                        false => drop(state.remove(&key)),
                    }
                    changed.push((revision, key, exists));
                }
                states.push(state);
            }
            Self { rng, states, changes }
        }

        /// Delivers everything with random lags, bookmarks, repetitions and, if `gaps` is set, lost changes after which a watch lists. Time
        /// passes by up to `lag` seconds between two deliveries.
        fn deliver(&self, merger: &mut Merger<i64>, lag: u64, gaps: bool) -> Vec<Commit<i64>> {
            let ids: Vec<_> = (0..WATCHES).map(|_| merger.add_watch(0, BTreeMap::new())).collect();
            let newest = i64::try_from(self.states.len() - 1).unwrap();
            let (mut next, mut now, mut commits) = ([0; WATCHES], Duration::ZERO, Vec::new());
            let mut delivered = [0; WATCHES];
            while (0..WATCHES).any(|watch| next[watch] < self.changes[watch].len()) {
                let watch = usize::try_from(self.rng.below(WATCHES as u64)).unwrap();
                now += Duration::from_secs(self.rng.below(lag + 1));
                let (id, changes) = (ids[watch], &self.changes[watch]);
                let Some((revision, key, exists)) = changes.get(next[watch]).cloned() else {
                    merger.progress(id, newest);
                    continue;
                };
                match self.rng.below(if gaps { 12 } else { 10 }) {
                    0 => merger.progress(id, revision - 1),
                    // The watch is opened again a little before.
                    1 => next[watch] = next[watch].saturating_sub(2),
                    10 | 11 => {
                        let list = newest.min(delivered[watch].max(revision + 3));
                        delivered[watch] = list;
                        let list = usize::try_from(list).unwrap();
                        let prefix = format!("{watch}/");
                        let objects = self.states[list].iter().filter(|(key, _)| key.starts_with(&prefix));
                        let mut objects = objects.map(|(key, at)| (key.clone(), *at));
                        let list = i64::try_from(list).unwrap();
                        let times = (Duration::from_secs(1), now);
                        if self.rng.below(2) == 0 {
                            // A list that breaks, after some of its objects were stored.
                            merger.list_begins(id);
                            if let Some((key, at)) = objects.clone().next() {
                                merger.listed(id, list, (key, at, at), times);
                            }
                            commits.append(&mut merger.ready(now));
                        }
                        relist(merger, (id, list), objects.by_ref(), times);
                        next[watch] = changes.partition_point(|(at, ..)| *at <= list);
                    }
                    _ => {
                        let change = if exists { Change::Put(revision) } else { Change::Delete };
                        merger.change(id, revision, key, change, now);
                        delivered[watch] = delivered[watch].max(revision);
                        next[watch] += 1;
                    }
                }
                commits.append(&mut merger.ready(now));
            }
            commits.append(&mut merger.finish());
            commits
        }
    }

    /// Applies commits, and checks that their revisions ascend and that the states of each object keep their order.
    fn apply(
        commits: &[Commit<i64>],
        mut check: impl FnMut(i64, &BTreeMap<String, i64>),
    ) -> BTreeMap<String, i64> {
        let (mut state, mut last) = (BTreeMap::new(), 0);
        let mut newest: BTreeMap<String, i64> = BTreeMap::new();
        for commit in commits {
            assert!(commit.revision > last, "{} after {last}", commit.revision);
            last = commit.revision;
            for (key, change) in &commit.changes {
                match change {
                    Change::Put(value) => {
                        let before = newest.insert(key.clone(), *value).unwrap_or_default();
                        assert!(before <= *value, "{key}: {value} after {before}");
                        state.insert(key.clone(), *value);
                    }
                    Change::Delete => drop(state.remove(key)),
                }
            }
            check(commit.revision, &state);
        }
        state
    }

    #[test]
    fn without_gaps_and_in_time_every_revision_is_that_of_the_source() {
        for seed in 0..300 {
            let source = Source::random(seed, 60);
            let commits = source.deliver(&mut Merger::new(0, Duration::from_secs(1 << 40)), 1, false);
            let mut expected = 0;
            apply(&commits, |revision, state| {
                assert_eq!(state, &source.states[usize::try_from(revision).unwrap()], "seed {seed}");
                expected += 1;
            });
            let changed: BTreeSet<i64> = source.changes.iter().flatten().map(|(at, ..)| *at).collect();
            assert_eq!(expected, changed.len(), "seed {seed}: a revision is missing");
            assert!(commits.iter().all(|commit| !commit.is_late && commit.gap.is_none()), "seed {seed}");
        }
    }

    #[test]
    fn with_late_changes_and_gaps_the_order_stays_and_the_end_is_that_of_the_source() {
        let mut seen = (false, false);
        for seed in 0..300 {
            let source = Source::random(seed, 60);
            let commits = source.deliver(&mut Merger::new(0, Duration::from_secs(3)), 2, seed % 2 == 0);
            let end = apply(&commits, |_, _| {});
            assert_eq!(Some(&end), source.states.last(), "seed {seed}");
            seen.0 |= commits.iter().any(|commit| commit.is_late);
            seen.1 |= commits.iter().any(|commit| commit.gap.is_some());
        }
        assert_eq!(seen, (true, true), "the test reaches both");
    }
}
