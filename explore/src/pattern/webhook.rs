//! `webhook`: each admission webhook of the references is away at each distinct write that calls it, until all is quiet: nothing listens at
//! its address, or its calls run out of time.

use super::{PatternId, Traced, plan};
use crate::plan::{Operation, Plan, PlannedAction, RequestPhase, Trigger};
use crate::record::{ObjectKey, RecordedWrite};
use serde_json::Value;
use std::collections::BTreeMap;

/// What the kinds of the objects that configure webhooks end with.
const CONFIGURATIONS: &str = "webhookconfigurations.admissionregistration.k8s.io";

pub(super) fn plans(traced: &Traced<'_>, writes: &[&RecordedWrite]) -> Vec<Plan> {
    let run = traced.run();
    // The newest state of each configuration: programs often make them, and add their authorities later.
    let initial = run.initial.iter().map(|stored| (stored.key(), &stored.object));
    let written = run.writes.iter().map(|write| (write.key.clone(), write.object()));
    let is_configuration = |(key, _): &(ObjectKey, &Value)| key.resource.ends_with(CONFIGURATIONS);
    let configurations: BTreeMap<ObjectKey, &Value> =
        initial.chain(written).filter(is_configuration).collect();
    let webhooks = configurations.values().flat_map(|configuration| configuration["webhooks"].as_array());
    let mut plans = Vec::new();
    for webhook in webhooks.flatten() {
        let name = webhook["name"].as_str().unwrap_or_default();
        for write in writes.iter().filter(|write| calls(webhook, write)) {
            for how in ["refused", "timeout"] {
                let until = Box::new(Trigger::quiet());
                let (webhook, how) = (name.to_owned(), how.to_owned());
                let away = Operation::WebhookDown { webhook, how, until };
                let action = PlannedAction::at(traced.at_write(write, RequestPhase::Arrived), away);
                plans.push(plan(PatternId::Webhook, Traced::subject(write), vec![action]));
            }
        }
    }
    plans
}

/// Whether a rule of a webhook is about a write. Selectors and conditions may still exempt its object.
fn calls(webhook: &Value, write: &RecordedWrite) -> bool {
    let (plural, group) = write.key.resource.split_once('.').unwrap_or((&write.key.resource, ""));
    let (verb, subresource) = write.verb.split_once('/').unwrap_or((&write.verb, ""));
    let operation = match verb {
        "create" => "CREATE",
        "update" | "patch" => "UPDATE",
        _ => "DELETE",
    };
    let resources = match subresource {
        "" => vec![plural.to_owned(), "*".to_owned(), "*/*".to_owned()],
        sub => {
            vec![format!("{plural}/{sub}"), format!("{plural}/*"), format!("*/{sub}"), "*/*".to_owned()]
        }
    };
    let has = |rule: &Value, member: &str, texts: &[&str]| {
        let listed = rule[member].as_array().into_iter().flatten().filter_map(Value::as_str);
        listed.into_iter().any(|text| texts.contains(&text))
    };
    let resources: Vec<&str> = resources.iter().map(String::as_str).collect();
    webhook["rules"].as_array().into_iter().flatten().any(|rule| {
        has(rule, "apiGroups", &[group, "*"])
            && has(rule, "operations", &[operation, "*"])
            && has(rule, "resources", &resources)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::tests::write;
    use serde_json::json;

    #[test]
    fn a_webhook_is_called_by_the_writes_of_its_rules() {
        let webhook = |groups: &str, operation: &str, resource: &str| json!({"rules": [{"apiGroups": [groups], "operations": [operation], "resources": [resource]}]});
        let create = write(1, "op", "jobs.batch/default/a", json!(null), json!({}));
        let mut status = write(2, "op", "jobs.batch/default/a", json!({}), json!({"n": 1}));
        status.verb = "patch/status".to_owned();
        let rows = [
            (webhook("batch", "CREATE", "jobs"), &create, true),
            (webhook("*", "*", "*/*"), &create, true),
            (webhook("", "CREATE", "jobs"), &create, false),
            (webhook("batch", "UPDATE", "jobs"), &create, false),
            (webhook("batch", "CREATE", "jobs/status"), &create, false),
            (webhook("batch", "UPDATE", "jobs/status"), &status, true),
            (webhook("batch", "UPDATE", "*/status"), &status, true),
            (webhook("batch", "UPDATE", "jobs"), &status, false),
            (webhook("batch", "UPDATE", "*"), &status, false),
            (json!({}), &create, false),
        ];
        for (webhook, write, expected) in rows {
            assert_eq!(calls(&webhook, write), expected, "{webhook} {}", write.verb);
        }
    }
}
