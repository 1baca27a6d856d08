//! [`Series`]: turns what happened into events to write. Pure. The rules are those that people know from Kubernetes: the same
//! message again raises a count; ten different messages of one reason within ten minutes become one combined event; each
//! object may have a burst of events, then one more every five minutes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{Event, EventType, Recorded, Reference};
use crate::limits::{
    RECORDER_BURST, RECORDER_DISTINCT_MESSAGES, RECORDER_REFILL, RECORDER_SERIES, RECORDER_WINDOW,
};

/// Object, type and reason.
type Group = (Reference, EventType, String);

/// See the module.
pub(super) struct Series {
    component: String,
    groups: Recent<Group, Messages>,
    events: Recent<(Group, String), Counted>,
    budgets: Recent<Reference, Budget>,
}

/// The distinct messages of a group within its window.
struct Messages {
    seen: BTreeSet<String>,
    since: Timestamp,
}

struct Counted {
    name: String,
    count: u32,
    first: Timestamp,
    last: Timestamp,
}

/// A token bucket: `spent` tokens, of which one comes back every refill.
struct Budget {
    spent: f64,
    at: Timestamp,
}

impl Series {
    pub(super) fn new(component: &str) -> Self {
        Self {
            component: component.to_owned(),
            groups: Recent::default(),
            events: Recent::default(),
            budgets: Recent::default(),
        }
    }

    /// The event to write, or none if the object has had too many.
    pub(super) fn merge(&mut self, recorded: Recorded) -> Option<Event> {
        let Recorded { about, event_type, reason, message, at, causes } = recorded;
        let group = (about.clone(), event_type, reason.clone());
        let (message, merged_as) = match self.is_varied(&group, &message, at) {
            true => (format!("(combined from similar events): {message}"), String::new()),
            false => (message.clone(), message),
        };
        let counted = self.count((group, merged_as), at);
        let (name, count, first) = (counted.name.clone(), counted.count, counted.first);
        if !self.spend(&about, at) {
            return None;
        }
        let component = self.component.clone();
        Some(Event { name, component, about, event_type, reason, message, count, first, last: at, causes })
    }

    /// Whether the group has had so many distinct messages that they are combined.
    fn is_varied(&mut self, group: &Group, message: &str, at: Timestamp) -> bool {
        let messages = self.groups.entry(group, || Messages { seen: BTreeSet::new(), since: at });
        if at.duration_since(messages.since) > window() {
            *messages = Messages { seen: BTreeSet::new(), since: at };
        }
        if messages.seen.len() < RECORDER_DISTINCT_MESSAGES as usize {
            messages.seen.insert(message.to_owned());
        }
        messages.seen.len() >= RECORDER_DISTINCT_MESSAGES as usize
    }

    fn count(&mut self, key: (Group, String), at: Timestamp) -> &Counted {
        let fresh = || Counted {
            name: format!("{}.{:016x}", key.0.0.name, at.as_nanosecond()),
            count: 0,
            first: at,
            last: at,
        };
        let counted = self.events.entry(&key, fresh);
        if at.duration_since(counted.last) > window() {
            *counted = fresh();
        }
        counted.count += 1;
        counted.last = at;
        counted
    }

    fn spend(&mut self, about: &Reference, at: Timestamp) -> bool {
        let budget = self.budgets.entry(about, || Budget { spent: 0.0, at });
        let earned = at.duration_since(budget.at).as_secs_f64() / RECORDER_REFILL.as_secs_f64();
        budget.spent = (budget.spent - earned.max(0.0)).max(0.0);
        budget.at = at;
        let affordable = budget.spent + 1.0 <= f64::from(RECORDER_BURST);
        if affordable {
            budget.spent += 1.0;
        }
        affordable
    }
}

fn window() -> SignedDuration {
    SignedDuration::try_from(RECORDER_WINDOW).unwrap_or(SignedDuration::MAX)
}

/// A map that forgets what was not used for longest.
struct Recent<K, V> {
    values: BTreeMap<K, (u64, V)>,
    by_use: BTreeMap<u64, K>,
    uses: u64,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { values: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }
}

impl<K: Ord + Clone, V> Recent<K, V> {
    fn entry(&mut self, key: &K, fresh: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        match self.values.get_mut(key) {
            Some((used, _)) => {
                self.by_use.remove(used);
                *used = self.uses;
            }
            None => {
                if self.values.len() >= RECORDER_SERIES
                    && let Some((_, oldest)) = self.by_use.pop_first()
                {
                    self.values.remove(&oldest);
                }
                self.values.insert(key.clone(), (self.uses, fresh()));
            }
        }
        self.by_use.insert(self.uses, key.clone());
        &mut self.values.get_mut(key).expect("the entry is there or was just made").1
    }
}
