//! [`Series`]: turns what happened into events to write. Pure. The rules are those that people know from Kubernetes: the same
//! thing again raises a count; ten different messages of one reason, with less than ten minutes from one to the next, become
//! one combined event; each object may have a burst of new events, then one more every five minutes. When a count is written
//! is `outbox`'s matter.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::{Event, EventType, Occurrence, Recorded, Reference, names::Names, recent::Recent};
use crate::limits::{
    RECORDER_BURST, RECORDER_DISTINCT_MESSAGES, RECORDER_REFILL, RECORDER_SERIES, RECORDER_WINDOW,
};

/// Host, object and type: what has a budget.
type Subject = (String, Reference, EventType);
/// A subject and a reason: what is combined if its messages vary.
type Group = (Subject, String);

/// What makes two occurrences the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Same {
    group: Group,
    /// Part of the object, action, related object, message; none for what is combined.
    told: Option<(String, String, Option<Reference>, String)>,
}

/// See the module.
pub(super) struct Series {
    component: String,
    names: Names,
    groups: Recent<Group, Messages>,
    events: Recent<Same, Counted>,
    budgets: Recent<Subject, Budget>,
}

/// The distinct messages of a group, and when the last one came.
struct Messages {
    seen: BTreeSet<String>,
    last: Timestamp,
}

struct Counted {
    name: String,
    count: u32,
    first: Timestamp,
    last: Timestamp,
    /// Whether it was within its object's budget, once: repetitions are paced, and cost nothing.
    admitted: bool,
}

/// A token bucket: `spent` tokens, of which one comes back every refill.
struct Budget {
    spent: f64,
    at: Timestamp,
}

impl Series {
    /// `salt` is a random number of this recorder's own.
    pub(super) fn new(component: &str, salt: u32) -> Self {
        Self {
            component: component.to_owned(),
            names: Names::new(salt),
            groups: Recent::new(RECORDER_SERIES),
            events: Recent::new(RECORDER_SERIES),
            budgets: Recent::new(RECORDER_SERIES),
        }
    }

    /// The event in its newest state, or none if its object has had too many.
    pub(super) fn merge(&mut self, recorded: Recorded) -> Option<Event> {
        let Recorded { occurrence, host, at, causes } = recorded;
        let Occurrence { about, related, event_type, reason, action, message } = occurrence;
        let subject = (host.to_string(), about.whole(), event_type);
        let group = (subject, reason.clone());
        let varied = self.is_varied(&group, &message, at);
        let told = || (about.field_path.clone(), action.clone(), related.clone(), message.clone());
        let same = Same { told: (!varied).then(told), group };
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

    /// Whether the group has had so many distinct messages that they are combined.
    fn is_varied(&mut self, group: &Group, message: &str, at: Timestamp) -> bool {
        let messages = self.groups.entry(group, || Messages { seen: BTreeSet::new(), last: at });
        if at.duration_since(messages.last) > window() {
            messages.seen.clear();
        }
        messages.last = at;
        messages.seen.insert(message.to_owned());
        let varied = messages.seen.len() >= RECORDER_DISTINCT_MESSAGES as usize;
        if varied {
            // One too few, so that a further message brings it over again, and the set stays small.
            messages.seen.pop_first();
        }
        varied
    }

    /// Counts it: name, count and first time, if its object's budget allows it to be written.
    fn count(&mut self, same: &Same, at: Timestamp) -> Option<(String, u32, Timestamp)> {
        let subject = &same.group.0;
        let names = &mut self.names;
        let mut fresh = || Counted {
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
