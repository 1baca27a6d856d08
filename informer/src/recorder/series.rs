//! [`Series`]: merges recorded events. Pure. The rules are those of client-go's event correlator. A
//! repetition raises the count of its event. From ten different messages of one reason on, with less than ten
//! minutes between them, the messages form one combined event. Each object may have a burst of new events,
//! then one more every five minutes. `outbox` decides when a count is written.

use super::names::Names;
use super::recent::LruCache;
use super::{Event, EventType, Occurrence, RecordedEvent, Reference};
use crate::limits::{
    RECORDER_BURST, RECORDER_DISTINCT_MESSAGES, RECORDER_REFILL, RECORDER_SERIES, RECORDER_WINDOW,
};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;

/// Host, object and type of an event: the key of the spam budget.
type Subject = (String, Reference, EventType);
/// A subject and a reason: events of a group are combined if their messages vary.
type Group = (Subject, String);

/// Identity of an event: two occurrences with the same identity are counted together.
#[derive(Clone, PartialEq, Eq, Hash)]
struct EventIdentity {
    group: Group,
    /// Field path, action, related object and message; `None` for combined events.
    details: Option<(String, String, Option<Reference>, String)>,
}

/// Merges repeated and similar events, and limits new events per object.
pub(super) struct Series {
    component: String,
    names: Names,
    groups: LruCache<Group, GroupMessages>,
    events: LruCache<EventIdentity, EventCount>,
    budgets: LruCache<Subject, Budget>,
}

/// The distinct messages of a group, and the time of the last one.
struct GroupMessages {
    seen: BTreeSet<String>,
    last: Timestamp,
}

struct EventCount {
    name: String,
    count: u32,
    first: Timestamp,
    last: Timestamp,
    /// Whether the event was within its object's budget at its first occurrence. Repetitions cost no budget,
    /// because the outbox paces them.
    admitted: bool,
}

/// A token bucket: `spent` tokens, of them one is refilled per [`RECORDER_REFILL`].
struct Budget {
    spent: f64,
    at: Timestamp,
}

impl Series {
    /// An empty series; `salt` is a random number of this recorder.
    pub(super) fn new(component: &str, salt: u32) -> Self {
        Self {
            component: component.to_owned(),
            names: Names::new(salt),
            groups: LruCache::new(RECORDER_SERIES),
            events: LruCache::new(RECORDER_SERIES),
            budgets: LruCache::new(RECORDER_SERIES),
        }
    }

    /// The newest state of the event, or `None` if its object has exceeded its budget.
    pub(super) fn merge(&mut self, recorded: RecordedEvent) -> Option<Event> {
        let RecordedEvent { occurrence, host, at, causes } = recorded;
        let Occurrence { about, related, event_type, reason, action, message } = occurrence;
        let subject = (host.to_string(), about.whole(), event_type);
        let group = (subject, reason.clone());
        let varied = self.is_varied(&group, &message, at);
        let details = || (about.field_path.clone(), action.clone(), related.clone(), message.clone());
        let same = EventIdentity { details: (!varied).then(details), group };
        let (name, count, first) = self.count(&same, at)?;
        let message = if varied { format!("(combined from similar events): {message}") } else { message };
        let (component, host) = (self.component.clone(), host.to_string());
        let (known, last) = (false, at);
        Some(Event {
            name,
            known,
            component,
            host,
            about,
            related,
            event_type,
            reason,
            action,
            message,
            count,
            first,
            last,
            causes,
        })
    }

    /// Whether the group has so many distinct messages that they are combined.
    fn is_varied(&mut self, group: &Group, message: &str, at: Timestamp) -> bool {
        let messages = self.groups.entry(group, || GroupMessages { seen: BTreeSet::new(), last: at });
        if at.duration_since(messages.last) > window() {
            messages.seen.clear();
        }
        messages.last = at;
        messages.seen.insert(message.to_owned());
        let varied = messages.seen.len() >= RECORDER_DISTINCT_MESSAGES as usize;
        if varied {
            // Keeps one message too few, so that a further message is combined again and the set stays
            // bounded.
            messages.seen.pop_first();
        }
        varied
    }

    /// Counts an occurrence. Returns name, count and first time of the event if the object's budget allows
    /// it.
    fn count(&mut self, same: &EventIdentity, at: Timestamp) -> Option<(String, u32, Timestamp)> {
        let subject = &same.group.0;
        let names = &mut self.names;
        let mut fresh = || EventCount {
            name: names.next(&subject.1.name, at),
            count: 0,
            first: at,
            last: at,
            admitted: false,
        };
        let counted = self.events.entry(same, &mut fresh);
        if at.duration_since(counted.last) > window() {
            *counted = fresh();
        }
        counted.count = counted.count.saturating_add(1);
        counted.last = at;
        if !counted.admitted {
            let budget = self.budgets.entry(subject, || Budget { spent: 0.0, at });
            counted.admitted = budget.spend(at);
        }
        counted.admitted.then(|| (counted.name.clone(), counted.count, counted.first))
    }
}

impl Budget {
    fn spend(&mut self, at: Timestamp) -> bool {
        let earned = at.duration_since(self.at).as_secs_f64() / RECORDER_REFILL.as_secs_f64();
        self.spent = (self.spent - earned.max(0.0)).max(0.0);
        self.at = at;
        let affordable = self.spent + 1.0 <= f64::from(RECORDER_BURST);
        self.spent += if affordable { 1.0 } else { 0.0 };
        affordable
    }
}

fn window() -> SignedDuration {
    SignedDuration::try_from(RECORDER_WINDOW).unwrap_or(SignedDuration::MAX)
}
