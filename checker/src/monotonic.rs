//! Monotonicity: every revision that a client observed is covered by every answer to a later call.

use crate::describe;
use crate::history::{Call, History, Operation, Outcome, Reply, WatchContent};
use crate::verdict::{Guarantee, Violation};
use std::collections::BTreeMap;

/// An observation of a revision at a time.
struct Observation<'a> {
    at: u64,
    revision: i64,
    of: ObservationSource<'a>,
}

#[derive(Clone, Copy)]
enum ObservationSource<'a> {
    Start,
    Call(&'a Call),
    Watch(&'a crate::history::Watch),
}

/// For every observed revision, the time by which it or a later one was observed.
pub(crate) fn seen_by(history: &History) -> BTreeMap<i64, u64> {
    let mut seen_by: BTreeMap<i64, u64> = BTreeMap::new();
    for Observation { at, revision, .. } in observations(history) {
        let first = seen_by.entry(revision).or_insert(at);
        *first = at.min(*first);
    }
    let mut earliest = u64::MAX;
    for at in seen_by.values_mut().rev() {
        earliest = earliest.min(*at);
        *at = earliest;
    }
    seen_by
}

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut observations = observations(history);
    observations.sort_by_key(|sight| sight.at);
    let mut calls: Vec<_> = history.calls.iter().filter_map(|call| Some((call, current(call)?))).collect();
    calls.sort_by_key(|(call, _)| call.call);
    let mut highest = Observation { at: 0, revision: history.start.revision, of: ObservationSource::Start };
    let mut observations = observations.into_iter().peekable();
    let mut broken = Vec::new();
    for (call, revision) in calls {
        while let Some(sight) = observations.next_if(|sight| sight.at < call.call) {
            if sight.revision > highest.revision {
                highest = sight;
            }
        }
        if revision < highest.revision {
            broken.push(violation(call, revision, &highest));
        }
    }
    broken
}

/// The revision of a call's answer, if that must be current.
fn current(call: &Call) -> Option<i64> {
    let Outcome::Ok(reply) = &call.outcome else { return None };
    match &call.operation {
        Operation::Range(range) if range.serializable => None,
        _ => reply.revision(),
    }
}

fn observations(history: &History) -> Vec<Observation<'_>> {
    let calls = history.calls.iter().filter_map(|call| {
        let Outcome::Ok(reply) = &call.outcome else { return None };
        let seen = match reply {
            Reply::Range(reply) => {
                reply.kvs.iter().map(|kv| kv.mod_revision).max().unwrap_or(0).max(reply.revision)
            }
            reply => reply.revision()?,
        };
        Some(Observation { at: call.ret, revision: seen, of: ObservationSource::Call(call) })
    });
    let watches = history.watches.iter().flat_map(|watch| {
        watch.responses.iter().map(move |response| {
            let events = match &response.said {
                WatchContent::Events { events, .. } => events.iter().map(|event| event.kv.mod_revision).max(),
                WatchContent::Created | WatchContent::Progress | WatchContent::Canceled { .. } => None,
            };
            let revision = events.unwrap_or(0).max(response.revision);
            Observation { at: response.at, revision, of: ObservationSource::Watch(watch) }
        })
    });
    calls.chain(watches).collect()
}

fn violation(call: &Call, revision: i64, highest: &Observation<'_>) -> Violation {
    let before = match highest.of {
        ObservationSource::Start => "the start of the history".into(),
        ObservationSource::Call(call) => describe::call(call),
        ObservationSource::Watch(watch) => describe::watch(watch),
    };
    Violation {
        guarantee: Guarantee::Monotonic,
        summary: format!("revision {} was seen, and later the store was at {revision}", highest.revision),
        expected: format!("revision {} or more, seen at {}", highest.revision, describe::time(highest.at)),
        seen: format!("revision {revision}"),
        window: vec![before, describe::call(call)],
    }
}
