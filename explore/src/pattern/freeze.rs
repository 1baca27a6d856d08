//! `freeze`: one kind lags. From a write of the program on it is shown no newer state of that kind, until all is quiet, or for six minutes
//! of the cluster's time: longer than the expectations of controllers live.

use super::{PatternId, Traced, plan};
use crate::plan::{Operation, Plan, PlannedAction, Route, RoutedClient, Trigger};
use crate::record::RecordedWrite;

/// Name of the lagging cache.
pub(super) const CACHE: &str = "behind";

pub(super) fn plans(traced: &Traced<'_>, writes: &[&RecordedWrite]) -> Vec<Plan> {
    let mut plans = Vec::new();
    for write in writes {
        let Some(begin) = begin(traced, write) else { continue };
        for thaw in [Trigger::quiet(), Trigger::after("6m")] {
            let thaw = PlannedAction::at(thaw, Operation::Thaw { cache: CACHE.to_owned(), step: None });
            let actions = begin.iter().cloned().chain([thaw]).collect();
            plans.push(plan(PatternId::Freeze, Traced::subject(write), actions));
        }
    }
    plans
}

/// The program reads from a cache, which stands still from a write on. `None` if the program does not read the kind.
pub(super) fn begin(traced: &Traced<'_>, write: &RecordedWrite) -> Option<[PlannedAction; 2]> {
    write.delivered(&write.key.resource)?;
    let client = RoutedClient { program: write.client.clone() };
    let routes = vec![Route { client, cache: CACHE.to_owned() }];
    let freeze = Operation::Freeze { cache: CACHE.to_owned(), resources: vec![write.key.resource.clone()] };
    Some([
        PlannedAction::at_once(Operation::Route { routes }),
        PlannedAction::at(traced.at_change(write, 0), freeze),
    ])
}
