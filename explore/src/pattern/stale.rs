//! `stale`: time travel at a restart. A write of the program deletes something, a later one makes it again; then the program dies, and
//! starts on a cache that stands before. Only for programs that list with `resourceVersion=0`.

use super::{PatternId, Traced, is_loss, plan};
use crate::plan::{Operation, Plan, PlannedAction, RequestTrigger, Restart, Trigger};
use crate::record::{Effect, RecordedWrite};
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
            for kind in known_kinds(traced, loss) {
                for (trigger, revision) in standing(traced, loss, kind) {
                    let restart = traced.at_change(again, revision);
                    plans.push(travel(loss, kind, trigger, restart));
                }
            }
        }
    }
    plans
}

/// The kinds with a change that the program may have been shown before the loss.
fn known_kinds<'t>(traced: &Traced<'t>, loss: &'t RecordedWrite) -> BTreeSet<&'t str> {
    let has_changed = |kind: &str| {
        let of_kind = |write: &&RecordedWrite| write.key.resource == kind;
        traced.run().writes.iter().filter(of_kind).any(|write| write.revision < loss.revision)
    };
    let kinds = loss.views.iter().map(|view| view.resource.as_str());
    kinds.filter(|kind| has_changed(kind)).collect()
}

/// When the cache stands still, and the revision after which later changes count: at the loss, so that it shows what led to the loss; and
/// before the last change by others that the program was shown, so that it shows what was there before.
fn standing(traced: &Traced<'_>, loss: &RecordedWrite, kind: &str) -> Vec<(Trigger, i64)> {
    let shown = loss.delivered(kind).unwrap_or(0);
    let is_cause = |write: &&RecordedWrite| {
        write.key.resource == kind && write.client != loss.client && write.revision <= shown
    };
    let cause = traced.run().writes.iter().rfind(is_cause);
    let before = cause.map(|cause| (traced.at_event(&loss.client, cause), cause.revision));
    std::iter::once((traced.at_change(loss, 0), loss.revision)).chain(before).collect()
}

/// The cache stands still at a trigger, and at another one the program dies and starts on it.
fn travel(loss: &RecordedWrite, kind: &str, freeze: Trigger, restart: Trigger) -> Plan {
    let resources = vec![kind.to_owned()];
    let kill =
        Operation::Kill { program: loss.client.clone(), start: Restart::Now, cache: Some(CACHE.to_owned()) };
    let actions = vec![
        PlannedAction::at(freeze, Operation::Freeze { cache: CACHE.to_owned(), resources }),
        PlannedAction::at(restart, kill),
        // The new instance has to see the cache before it is thawed.
        PlannedAction::at(list(&loss.client, kind), Operation::Resume {}),
        PlannedAction::at(Trigger::quiet(), Operation::Thaw { cache: CACHE.to_owned(), step: None }),
    ];
    plan(PatternId::Stale, Traced::subject(loss), actions)
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
