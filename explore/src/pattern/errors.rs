//! `errors`: each distinct write and read is refused with 500, 429, 504 or a broken connection, once and three times.

use super::{PatternId, Traced, plan};
use crate::plan::{Operation, Plan, PlannedAction, RequestPhase, RequestTrigger, Subject, Trigger};
use crate::record::RecordedWrite;
use std::collections::BTreeSet;

pub(super) fn plans(traced: &Traced<'_>, writes: &[&RecordedWrite]) -> Vec<Plan> {
    let mut plans = Vec::new();
    for write in writes {
        let trigger = traced.at_write(write, RequestPhase::Arrived);
        plans.extend(refusals(&trigger, &Traced::subject(write)));
    }
    let mut seen = BTreeSet::new();
    for request in traced.run().requests.iter().filter(|request| traced.program(&request.client).is_some()) {
        let is_read = matches!(&*request.verb, "get" | "list") && !request.resource.is_empty();
        if !is_read || !seen.insert((&request.client, &request.verb, &request.resource)) {
            continue;
        }
        let some = |text: &String| Some(text.clone());
        let trigger = Trigger::Request(RequestTrigger {
            client: some(&request.client),
            verb: some(&request.verb),
            resource: some(&request.resource),
            nth: 1,
            ..RequestTrigger::default()
        });
        let subject = Subject { resource: request.resource.clone(), verb: request.verb.clone() };
        plans.extend(refusals(&trigger, &subject));
    }
    plans
}

fn refusals(trigger: &Trigger, subject: &Subject) -> Vec<Plan> {
    let forms = [
        Operation::Error {},
        Operation::Unavailable { how: "reset".to_owned() },
        Operation::Timeout {},
        Operation::TooMany {},
    ];
    let mut plans = Vec::new();
    for times in [1, 3] {
        for form in &forms {
            let action = PlannedAction { times, ..PlannedAction::at(trigger.clone(), form.clone()) };
            plans.push(plan(PatternId::Errors, subject.clone(), vec![action]));
        }
    }
    plans
}
