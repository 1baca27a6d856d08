//! Watch checks that need no timeline: Filter, Ordered, Unique, Atomic, and Bookmarkable as far as its own events show
//! it.

use super::{Delivery, violation};
use crate::describe;
use crate::history::Watch;
use crate::verdict::{Guarantee, Violation};
use std::collections::BTreeSet;

type WatchCheck = fn(&Watch, &[Delivery<'_>]) -> Option<Violation>;

const CHECKS: [WatchCheck; 5] = [filter, ordered, unique, atomic, bookmarkable];

pub(super) fn check(watch: &Watch, deliveries: &[Delivery<'_>]) -> Option<Violation> {
    CHECKS.iter().find_map(|check| check(watch, deliveries))
}

fn filter(watch: &Watch, deliveries: &[Delivery<'_>]) -> Option<Violation> {
    deliveries.iter().find_map(|delivery| {
        let wanted = |kind, key| watch.wants(kind, key);
        let stray = delivery.events.iter().find(|event| !wanted(event.kind, event.kv.key.as_bytes()))?;
        let seen = ("only what was asked for".into(), describe::event(stray));
        Some(violation(Guarantee::Filter, watch, &[delivery], "an event that was not asked for", seen))
    })
}

/// Revisions must not go back, neither between events nor between an event and a later header.
fn ordered(watch: &Watch, deliveries: &[Delivery<'_>]) -> Option<Violation> {
    let (mut last, mut before) = (0, None);
    for delivery in deliveries {
        for event in &delivery.events {
            let revision = event.kv.mod_revision;
            let around: Vec<_> = before.into_iter().chain([delivery]).collect();
            let broken = |summary, expected| {
                let seen = (expected, describe::event(event));
                Some(violation(Guarantee::Ordered, watch, &around, summary, seen))
            };
            if revision < last {
                return broken("revisions go back", format!("revision {last} or more"));
            }
            if revision > delivery.revision {
                return broken("an event is newer than its header", format!("at most {}", delivery.revision));
            }
            last = revision;
        }
        before = Some(delivery);
    }
    None
}

fn unique(watch: &Watch, deliveries: &[Delivery<'_>]) -> Option<Violation> {
    let mut known = BTreeSet::new();
    deliveries.iter().find_map(|delivery| {
        let again = |event: &&&crate::history::Event| {
            !known.insert((event.kv.mod_revision, event.kv.key.clone(), event.kind))
        };
        let event = delivery.events.iter().find(again)?;
        let seen = ("each event once".into(), format!("{} again", describe::event(event)));
        Some(violation(Guarantee::Unique, watch, &[delivery], "an event came twice", seen))
    })
}

fn atomic(watch: &Watch, deliveries: &[Delivery<'_>]) -> Option<Violation> {
    let with_events: Vec<_> = deliveries.iter().filter(|delivery| !delivery.is_progress()).collect();
    with_events.windows(2).find_map(|pair| {
        let revision = pair[0].events.last()?.kv.mod_revision;
        let split = pair[1].events.first()?.kv.mod_revision == revision;
        let seen = (format!("all of revision {revision} together"), "two responses".into());
        split.then(|| violation(Guarantee::Atomic, watch, pair, "a revision is split", seen))
    })
}

fn bookmarkable(watch: &Watch, deliveries: &[Delivery<'_>]) -> Option<Violation> {
    let mut mark: Option<&Delivery<'_>> = None;
    for delivery in deliveries {
        let back = if delivery.is_progress() {
            mark.filter(|mark| delivery.revision < mark.revision)
        } else {
            let first = delivery.events.first().map_or(i64::MAX, |event| event.kv.mod_revision);
            mark.filter(|mark| first <= mark.revision)
        };
        if let Some(mark) = back {
            let seen = (format!("nothing up to revision {}", mark.revision), delivery.describe());
            let summary = "an event arrived after a progress response that covers it";
            return Some(violation(Guarantee::Bookmarkable, watch, &[mark, delivery], summary, seen));
        }
        if delivery.is_progress() {
            mark = Some(delivery);
        }
    }
    // A progress response must not be below the last event before it.
    let pairs = deliveries.windows(2);
    pairs.filter(|pair| pair[1].is_progress()).find_map(|pair| {
        let last = pair[0].events.last()?.kv.mod_revision;
        let seen = (format!("revision {last} or more"), pair[1].describe());
        let summary = "a progress response is older than an event before it";
        let around = [&pair[0], &pair[1]];
        (pair[1].revision < last).then(|| violation(Guarantee::Bookmarkable, watch, &around, summary, seen))
    })
}
