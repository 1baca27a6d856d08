//! `expire` and `cut`: each watch of a program expires, or ends, at the first events that it delivers; it also expires as it begins.

use super::{PatternId, Traced, plan};
use crate::plan::{EventTrigger, Operation, Plan, PlannedAction, RequestTrigger, Subject, Trigger};
use std::collections::BTreeSet;

/// Events of a watch at which it is perturbed.
const EVENTS: u64 = 2;

pub(super) fn expired(traced: &Traced<'_>) -> Vec<Plan> {
    let at_start = watches(traced).into_iter().map(|(client, resource)| {
        let trigger = Trigger::Request(RequestTrigger {
            client: Some(client.clone()),
            verb: Some("watch".to_owned()),
            resource: Some(resource.clone()),
            nth: 1,
            ..RequestTrigger::default()
        });
        let subject = Subject { resource: resource.clone(), verb: "watch".to_owned() };
        plan(PatternId::Expire, subject, vec![PlannedAction::at(trigger, Operation::Expire {})])
    });
    let mut plans = each(traced, PatternId::Expire, &[Operation::Expire {}]);
    plans.extend(at_start);
    plans
}

/// The watches of programs, each kind once.
fn watches<'t>(traced: &Traced<'t>) -> BTreeSet<(&'t String, &'t String)> {
    let watches = traced.run().requests.iter().filter(|request| {
        request.verb == "watch" && !request.resource.is_empty() && traced.program(&request.client).is_some()
    });
    watches.map(|request| (&request.client, &request.resource)).collect()
}

pub(super) fn cut(traced: &Traced<'_>) -> Vec<Plan> {
    let forms = ["end", "reset", "frame"].map(|how| Operation::Cut { how: how.to_owned() });
    let mut plans = each(traced, PatternId::Cut, &forms);
    // Old servers end watches of Events so.
    plans.extend(
        each(traced, PatternId::Cut, &[Operation::SilentEnd {}])
            .into_iter()
            .filter(|plan| plan.subject.resource.starts_with("events")),
    );
    plans
}

fn each(traced: &Traced<'_>, pattern: PatternId, forms: &[Operation]) -> Vec<Plan> {
    let mut plans = Vec::new();
    for (client, resource) in watches(traced) {
        let events =
            traced.run().writes.iter().filter(|write| write.key.resource == *resource).count() as u64;
        for nth in 1..=EVENTS.min(events) {
            for form in forms {
                let trigger = Trigger::Event(EventTrigger {
                    client: Some(client.clone()),
                    resource: Some(resource.clone()),
                    nth,
                    ..EventTrigger::default()
                });
                let subject = Subject { resource: resource.clone(), verb: "watch".to_owned() };
                plans.push(plan(pattern, subject, vec![PlannedAction::at(trigger, form.clone())]));
            }
        }
    }
    plans
}
