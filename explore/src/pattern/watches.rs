//! `expire` and `cut`: each watch of a program expires, or ends, at the first events that it delivers.

use super::{PatternId, Traced, plan};
use crate::plan::{EventTrigger, Operation, Plan, PlannedAction, Subject, Trigger};
use std::collections::BTreeSet;

/// Events of a watch at which it is perturbed.
const EVENTS: u64 = 2;

pub(super) fn expired(traced: &Traced<'_>) -> Vec<Plan> {
    each(traced, PatternId::Expire, &[Operation::Expire {}])
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
    let watches = traced.run().requests.iter().filter(|request| {
        request.verb == "watch" && !request.resource.is_empty() && traced.program(&request.client).is_some()
    });
    let watches: BTreeSet<(&String, &String)> =
        watches.map(|request| (&request.client, &request.resource)).collect();
    let mut plans = Vec::new();
    for (client, resource) in watches {
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
