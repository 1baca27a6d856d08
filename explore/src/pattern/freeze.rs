//! `freeze`: one kind lags. From just before a write of the program on it is shown no newer state of a kind that it reads, until all is
//! quiet, or for six minutes of the cluster's time: longer than the expectations of controllers live.

use super::{PatternId, Traced, plan};
use crate::plan::{Operation, Plan, PlannedAction, RequestPhase, Route, RoutedClient, Subject, Trigger};
use crate::record::RecordedWrite;

/// Name of the lagging cache.
pub(super) const CACHE: &str = "behind";

pub(super) fn plans(traced: &Traced<'_>, writes: &[&RecordedWrite]) -> Vec<Plan> {
    let mut plans = Vec::new();
    for (write, kind) in lagging(traced, writes) {
        for thaw in [Trigger::after("6m"), Trigger::quiet()] {
            let thaw = PlannedAction::at(thaw, Operation::Thaw { cache: CACHE.to_owned(), step: None });
            let actions = begin(traced, write, kind).into_iter().chain([thaw]).collect();
            plans.push(plan(PatternId::Freeze, subject(write, kind), actions));
        }
    }
    plans
}

/// Each write with each kind that its writer reads, if a change of the kind follows: freezing a cache holds nothing else back.
pub(super) fn lagging<'t>(
    traced: &Traced<'t>,
    writes: &[&'t RecordedWrite],
) -> Vec<(&'t RecordedWrite, &'t str)> {
    let follows = |write: &RecordedWrite, kind: &str| {
        let of_kind = |later: &&RecordedWrite| later.key.resource == kind;
        traced.run().writes.iter().filter(of_kind).any(|later| later.revision >= write.revision)
    };
    let mut all = Vec::new();
    for write in writes {
        let kinds = write.views.iter().map(|view| view.resource.as_str());
        all.extend(kinds.filter(|kind| follows(write, kind)).map(|kind| (*write, kind)));
    }
    all
}

/// What a plan perturbs: plans about different kinds take turns, too.
pub(super) fn subject(write: &RecordedWrite, kind: &str) -> Subject {
    Subject { resource: kind.to_owned(), verb: Traced::subject(write).verb }
}

/// The program reads from a cache. When a write of its arrives, the cache stands still for a kind: the write is not in it.
pub(super) fn begin(traced: &Traced<'_>, write: &RecordedWrite, kind: &str) -> [PlannedAction; 2] {
    let client = RoutedClient { program: write.client.clone() };
    let routes = vec![Route { client, cache: CACHE.to_owned() }];
    let freeze = Operation::Freeze { cache: CACHE.to_owned(), resources: vec![kind.to_owned()] };
    [
        PlannedAction::at_once(Operation::Route { routes }),
        PlannedAction::at(traced.at_write(write, RequestPhase::Arrived), freeze),
    ]
}
