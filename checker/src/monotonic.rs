//! Real time and revisions: whatever anybody has seen of a store is in every answer that is asked for later.

use std::collections::BTreeMap;

use crate::describe;
use crate::history::{Call, History, Operation, Outcome, Reply, Said};
use crate::verdict::{Guarantee, Violation};

/// A revision that was seen at a time.
struct Sight<'a> {
    at: u64,
    revision: i64,
    of: Of<'a>,
}

#[derive(Clone, Copy)]
enum Of<'a> {
    Start,
    Call(&'a Call),
    Watch(&'a crate::history::Watch),
}

/// By which time somebody had seen a revision or a later one, for every revision that was seen.
pub(crate) fn seen_by(history: &History) -> BTreeMap<i64, u64> {
    let mut seen_by: BTreeMap<i64, u64> = BTreeMap::new();
    for Sight { at, revision, .. } in sights(history) {
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
    let mut sights = sights(history);
    sights.sort_by_key(|sight| sight.at);
    let mut calls: Vec<_> = history.calls.iter().filter_map(|call| Some((call, current(call)?))).collect();
    calls.sort_by_key(|(call, _)| call.call);
    let mut highest = Sight { at: 0, revision: history.start.revision, of: Of::Start };
    let mut sights = sights.into_iter().peekable();
    let mut broken = Vec::new();
    for (call, revision) in calls {
        while let Some(sight) = sights.next_if(|sight| sight.at < call.call) {
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

/// The revision at which a call was answered, if it may not be an old one.
fn current(call: &Call) -> Option<i64> {
    let Outcome::Ok(reply) = &call.outcome else { return None };
    match &call.operation {
        Operation::Range(range) if range.serializable => None,
        _ => reply.revision(),
    }
}

fn sights(history: &History) -> Vec<Sight<'_>> {
    let calls = history.calls.iter().filter_map(|call| {
        let Outcome::Ok(reply) = &call.outcome else { return None };
        let seen = match reply {
            Reply::Range(reply) => {
                reply.kvs.iter().map(|kv| kv.mod_revision).max().unwrap_or(0).max(reply.revision)
            }
            reply => reply.revision()?,
        };
        Some(Sight { at: call.ret, revision: seen, of: Of::Call(call) })
    });
    let watches = history.watches.iter().flat_map(|watch| {
        watch.responses.iter().map(move |response| {
            let events = match &response.said {
                Said::Events { events, .. } => events.iter().map(|event| event.kv.mod_revision).max(),
                Said::Created | Said::Progress | Said::Canceled { .. } => None,
            };
            let revision = events.unwrap_or(0).max(response.revision);
            Sight { at: response.at, revision, of: Of::Watch(watch) }
        })
    });
    calls.chain(watches).collect()
}

fn violation(call: &Call, revision: i64, highest: &Sight<'_>) -> Violation {
    let before = match highest.of {
        Of::Start => "the start of the history".into(),
        Of::Call(call) => describe::call(call),
        Of::Watch(watch) => describe::watch(watch),
    };
    Violation {
        guarantee: Guarantee::Monotonic,
        summary: format!("revision {} was seen, and later the store was at {revision}", highest.revision),
        expected: format!("revision {} or more, seen at {}", highest.revision, describe::time(highest.at)),
        seen: format!("revision {revision}"),
        window: vec![before, describe::call(call)],
    }
}
