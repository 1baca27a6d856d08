//! Watch checks against the replay of all changes: Bookmarkable, Resumable, IsCreate, Reliable, PrevKv. A watch must
//! receive exactly the requested changes, from its first revision to the last one that it received.

use super::{Delivery, violation};
use crate::describe;
use crate::history::{Event, EventKind, History, KeyValue, Operation, Outcome, Watch};
use crate::model::Change;
use crate::timeline::Timeline;
use crate::verdict::{Guarantee, Violation};

struct ReplayCheck<'a> {
    history: &'a History,
    watch: &'a Watch,
    deliveries: &'a [Delivery<'a>],
    timeline: &'a Timeline,
    /// The events that the watch must receive, in order.
    expected: Vec<&'a Change>,
}

pub(super) fn check(
    history: &History,
    watch: &Watch,
    deliveries: &[Delivery<'_>],
    timeline: &Timeline,
) -> Option<Violation> {
    // The changes before the history's start are unknown.
    let first = watch.first()?.max(timeline.first() + 1);
    let heard = deliveries.iter().map(heard).max().unwrap_or(0).min(timeline.last());
    let changes = timeline.changes(first, heard).map(|(_, change)| change);
    let expected = changes.filter(|change| watch.wants(change.kind, change.kv.key.as_bytes())).collect();
    let check = ReplayCheck { history, watch, deliveries, timeline, expected };
    check
        .early()
        .or_else(|| check.resumable())
        .or_else(|| check.is_create())
        .or_else(|| check.reliable())
        .or_else(|| check.prev_kv())
}

/// The revision up to which a response completes the watch.
fn heard(delivery: &Delivery<'_>) -> i64 {
    delivery.events.last().map_or(delivery.revision, |event| event.kv.mod_revision)
}

impl<'a> ReplayCheck<'a> {
    fn events(&self) -> impl Iterator<Item = (&'a Delivery<'a>, &'a Event)> {
        let first = self.timeline.first();
        let all = self
            .deliveries
            .iter()
            .flat_map(|delivery| delivery.events.iter().map(move |event| (delivery, *event)));
        all.filter(move |(_, event)| event.kv.mod_revision > first)
    }

    fn broken(
        &self,
        guarantee: Guarantee,
        delivery: &Delivery<'_>,
        summary: &str,
        seen: (String, String),
    ) -> Violation {
        violation(guarantee, self.watch, &[delivery], summary, seen)
    }

    /// No watch can receive a revision before the call that made it.
    fn early(&self) -> Option<Violation> {
        let progress = self.deliveries.iter().filter(|delivery| delivery.is_progress());
        progress.into_iter().find_map(|delivery| {
            let revision = delivery.revision;
            let early = match self.timeline.get(revision) {
                Some(made) => made.not_before > delivery.at,
                None => revision > self.timeline.last() + self.unknown(),
            };
            let seen = ("a revision that exists".into(), delivery.describe());
            let summary = "a progress response has a revision that did not exist yet";
            early.then(|| self.broken(Guarantee::Bookmarkable, delivery, summary, seen))
        })
    }

    /// Number of revisions that may exist without any observation.
    fn unknown(&self) -> i64 {
        let unknown = self.history.calls.iter().filter(|call| call.outcome == Outcome::Unknown);
        let leases =
            self.history.calls.iter().filter(|call| matches!(call.operation, Operation::LeaseGrant { .. }));
        (unknown.count() + leases.count()) as i64
    }

    fn resumable(&self) -> Option<Violation> {
        let first = self.watch.first().unwrap_or(0);
        let (delivery, event) = self.events().next()?;
        if event.kv.mod_revision < first {
            let seen = (format!("nothing before revision {first}"), describe::event(event));
            let summary = "an event from before the first revision asked for";
            return Some(self.broken(Guarantee::Resumable, delivery, summary, seen));
        }
        let expected =
            self.expected.first().filter(|change| change.kv.mod_revision < event.kv.mod_revision)?;
        let seen = (describe_change(expected), describe::event(event));
        let summary = "the watch does not begin where it was asked to";
        Some(self.broken(Guarantee::Resumable, delivery, summary, seen))
    }

    fn is_create(&self) -> Option<Violation> {
        self.events().find_map(|(delivery, event)| {
            let change = self.change(event)?;
            let numbers = |kv: &KeyValue| (kv.create_revision, kv.version);
            let wrong = event.kind == EventKind::Put && numbers(&event.kv) != numbers(&change.kv);
            let seen = (describe_change(change), describe::event(event));
            let summary = "an event is wrong about how old its key is";
            wrong.then(|| self.broken(Guarantee::IsCreate, delivery, summary, seen))
        })
    }

    fn reliable(&self) -> Option<Violation> {
        let mut expected = self.expected.iter();
        for (delivery, event) in self.events() {
            let next = expected.next();
            if next.is_none_or(|change| change.kind != event.kind || *change.kv != event.kv) {
                let wanted = next.map_or("nothing more".into(), |change| describe_change(change));
                let summary = "the watch was not describe_change what happened";
                return Some(self.broken(
                    Guarantee::Reliable,
                    delivery,
                    summary,
                    (wanted, describe::event(event)),
                ));
            }
        }
        let missing = expected.next()?;
        // Only a progress response covers revisions beyond the last event.
        let revision = missing.kv.mod_revision;
        let delivery = self
            .deliveries
            .iter()
            .find(|delivery| delivery.is_progress() && delivery.revision >= revision)?;
        let summary = "a progress response covers a change that was left out";
        Some(self.broken(
            Guarantee::Bookmarkable,
            delivery,
            summary,
            (describe_change(missing), delivery.describe()),
        ))
    }

    fn prev_kv(&self) -> Option<Violation> {
        self.events().find_map(|(delivery, event)| {
            let before = self.change(event)?.before.as_deref();
            let right = match &event.prev_kv {
                Some(seen) => before == Some(seen),
                None => {
                    !self.watch.request.prev_kv || before.is_none() || self.may_be_gone(event, delivery.at)
                }
            };
            let expected =
                before.map_or("nothing before it".into(), |kv| format!("after {}", describe::kv(kv)));
            let summary = "the version before an event is not the one before it";
            let seen = (expected, describe::event(event));
            (!right).then(|| self.broken(Guarantee::PrevKv, delivery, summary, seen))
        })
    }

    /// The replayed change of an event.
    fn change(&self, event: &Event) -> Option<&'a Change> {
        let made = self.timeline.get(event.kv.mod_revision)?;
        made.changes.iter().find(|change| change.kind == event.kind && change.kv.key == event.kv.key)
    }

    /// Whether the previous version of an event may have been compacted at that time.
    fn may_be_gone(&self, event: &Event, at: u64) -> bool {
        self.history.calls.iter().any(|call| {
            matches!(call.operation, Operation::Compact { revision } if revision >= event.kv.mod_revision)
                && call.call <= at
                && !matches!(call.outcome, Outcome::Failed(_))
        }) || self.history.start.compacted >= event.kv.mod_revision
    }
}

fn describe_change(change: &Change) -> String {
    let prev_kv = change.before.as_deref().cloned();
    describe::event(&Event { kind: change.kind, kv: (*change.kv).clone(), prev_kv })
}
