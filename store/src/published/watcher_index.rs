//! Lookup of the watchers of a key. The cost depends on the number of matching watchers, not on the number of all.

use super::intervals::Intervals;
use super::registration::Registration;
use crate::{End, KeyRange};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Watchers by id, so that they are visited in order of registration.
type WatcherGroup = BTreeMap<u64, Arc<Registration>>;

/// All watchers by their key ranges.
#[derive(Debug, Default)]
pub(crate) struct WatcherIndex {
    single: BTreeMap<Bytes, WatcherGroup>,
    prefixes: BTreeMap<Bytes, WatcherGroup>,
    /// Number of prefixes of each length: a lookup probes once per length.
    lengths: BTreeMap<usize, usize>,
    /// Ranges that are neither single keys nor prefixes.
    intervals: Intervals<Arc<Registration>>,
}

impl WatcherIndex {
    pub(crate) fn insert(&mut self, registration: Arc<Registration>) {
        let (id, KeyRange { start, end }) = (registration.id, registration.request.keys.clone());
        match (RangeKind::of(&registration.request.keys), end) {
            (RangeKind::Single, _) => drop(self.single.entry(start).or_default().insert(id, registration)),
            (RangeKind::Prefix, _) => {
                let len = start.len();
                let group = self.prefixes.entry(start).or_default();
                if group.is_empty() {
                    *self.lengths.entry(len).or_default() += 1;
                }
                group.insert(id, registration);
            }
            (RangeKind::Interval, end) => self.intervals.insert(start, end, id, registration),
        }
    }

    pub(crate) fn remove(&mut self, registration: &Registration) {
        let keys = &registration.request.keys;
        match RangeKind::of(keys) {
            RangeKind::Single => drop(leave(&mut self.single, keys, registration.id)),
            RangeKind::Prefix => {
                if leave(&mut self.prefixes, keys, registration.id) {
                    self.forget_length(keys.start.len());
                }
            }
            RangeKind::Interval => self.intervals.remove(&keys.start, registration.id),
        }
    }

    fn forget_length(&mut self, len: usize) {
        let count = self.lengths.get_mut(&len).expect("the length of a prefix is known");
        *count -= 1;
        if *count == 0 {
            self.lengths.remove(&len);
        }
    }

    /// Visits the watchers of a key.
    pub(crate) fn visit(&self, key: &[u8], mut visit: impl FnMut(&Arc<Registration>)) {
        self.single.get(key).into_iter().flat_map(WatcherGroup::values).for_each(&mut visit);
        for len in self.lengths.keys().take_while(|len| **len <= key.len()) {
            self.prefixes.get(&key[..*len]).into_iter().flat_map(WatcherGroup::values).for_each(&mut visit);
        }
        let mut holding = Vec::new();
        self.intervals.visit(key, &mut |registration| holding.push(registration));
        holding.sort_unstable_by_key(|registration| registration.id);
        holding.into_iter().for_each(visit);
    }

    /// Visits all watchers.
    pub(crate) fn visit_all(&self, mut visit: impl FnMut(&Arc<Registration>)) {
        let groups = self.single.values().chain(self.prefixes.values());
        groups.flat_map(WatcherGroup::values).for_each(&mut visit);
        self.intervals.visit_all(&mut visit);
    }
}

/// The container that holds a range.
enum RangeKind {
    Single,
    Prefix,
    Interval,
}

impl RangeKind {
    fn of(keys: &KeyRange) -> Self {
        match keys.end {
            End::Single => Self::Single,
            End::Before(_) if keys.as_prefix().is_some() => Self::Prefix,
            End::Before(_) | End::Unbounded => Self::Interval,
        }
    }
}

/// Removes a watcher from its group. Returns whether the group is now empty and removed.
fn leave(groups: &mut BTreeMap<Bytes, WatcherGroup>, keys: &KeyRange, id: u64) -> bool {
    let Some(group) = groups.get_mut(&keys.start) else { return false };
    group.remove(&id);
    let last = group.is_empty();
    if last {
        groups.remove(&keys.start);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::registration::DeliveryMode;
    use crate::types::watch::WatchRequest;
    use crate::{Limits, Revision};
    use proptest::collection::vec;
    use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

    fn key() -> impl Strategy<Value = Vec<u8>> {
        vec(prop_oneof![Just(0), Just(1), Just(0xff)], 0..5)
    }

    fn keys() -> impl Strategy<Value = KeyRange> {
        prop_oneof![
            key().prop_map(KeyRange::single),
            key().prop_map(KeyRange::prefix),
            key().prop_map(KeyRange::from_key),
            (key(), key()).prop_map(|(a, b)| KeyRange::between(a, b)),
            (key(), key()).prop_map(|(a, b)| KeyRange::between(a, b)),
        ]
    }

    proptest! {
        #[test]
        fn a_key_finds_exactly_its_watchers(
            watchers in vec((keys(), any::<bool>()), 0..60),
            queried in vec(key(), 30),
        ) {
            let (mut interests, mut model) = (WatcherIndex::default(), Vec::new());
            for ((keys, leaves), id) in watchers.into_iter().zip(0..) {
                let mode = DeliveryMode::Live(Revision(1));
                let registration = Arc::new(Registration::new(id, WatchRequest::new(keys), mode, &Limits::default()));
                interests.insert(registration.clone());
                model.push((registration, leaves));
            }
            model.retain(|(registration, leaves)| {
                if *leaves {
                    interests.remove(registration);
                }
                !leaves
            });
            for key in queried {
                let mut visited = Vec::new();
                interests.visit(&key, |registration| visited.push(registration.id));
                let mut intervals = model.iter().map(|(registration, _)| registration).filter(|registration| {
                    matches!(RangeKind::of(&registration.request.keys), RangeKind::Interval) && registration.request.keys.contains(&key)
                });
                let last = visited.len() - intervals.clone().count();
                prop_assert!(intervals.by_ref().map(|registration| registration.id).eq(visited[last..].iter().copied()));
                visited.sort_unstable();
                let wanting = model.iter().filter(|(registration, _)| registration.request.keys.contains(&key));
                prop_assert_eq!(visited, wanting.map(|(registration, _)| registration.id).collect::<Vec<_>>());
            }
            let mut all = 0;
            interests.visit_all(|_| all += 1);
            prop_assert_eq!(all, model.len());
        }
    }
}
