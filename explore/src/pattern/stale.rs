//! `stale`: time travel at a restart. A write of the program deletes something, a later one makes it again; then the program dies, and
//! starts on a cache that stands before the deletion. Only for programs that list with `resourceVersion=0`.

use super::{PatternId, Traced, is_loss, plan};
use crate::plan::{Operation, Plan, PlannedAction, RequestTrigger, Restart, Trigger};
use crate::record::Effect;
use std::collections::BTreeSet;

/// Name of the lagging cache.
const CACHE: &str = "behind";

pub(super) fn plans(traced: &Traced<'_>) -> Vec<Plan> {
    let run = traced.run();
    let mut plans = Vec::new();
    for program in traced.programs.iter().filter(|program| program.lists_from_cache) {
        for loss in run.writes.iter().filter(|write| write.client == program.name && is_loss(write)) {
            let again = run.writes.iter().find(|write| {
                write.revision > loss.revision && write.key == loss.key && write.effect == Effect::Created
            });
            let Some(again) = again else { continue };
            // The kinds with a change that the program was shown before the loss.
            let kinds: BTreeSet<&str> = loss
                .views
                .iter()
                .map(|view| view.resource.as_str())
                .filter(|kind| {
                    let of_kind = |write: &&crate::record::RecordedWrite| write.key.resource == **kind;
                    run.writes.iter().filter(of_kind).any(|write| write.revision < loss.revision)
                })
                .collect();
            for kind in kinds {
                let freeze = Operation::Freeze { cache: CACHE.to_owned(), resources: vec![kind.to_owned()] };
                let kill = Operation::Kill {
                    program: program.name.clone(),
                    start: Restart::Now,
                    cache: Some(CACHE.to_owned()),
                };
                let actions = vec![
                    PlannedAction::at(traced.at_change(loss, 0), freeze),
                    PlannedAction::at(traced.at_change(again, loss.revision), kill),
                    // The new instance has to see the cache before it is thawed.
                    PlannedAction::at(list(&program.name, kind), Operation::Resume {}),
                    PlannedAction::at(
                        Trigger::quiet(),
                        Operation::Thaw { cache: CACHE.to_owned(), step: None },
                    ),
                ];
                plans.push(plan(PatternId::Stale, Traced::subject(loss), actions));
            }
        }
    }
    plans
}

/// The trigger at a program's list of a kind.
fn list(program: &str, kind: &str) -> Trigger {
    let some = |text: &str| Some(text.to_owned());
    Trigger::Request(RequestTrigger {
        client: some(program),
        verb: some("list"),
        resource: some(kind),
        nth: 1,
        ..RequestTrigger::default()
    })
}
