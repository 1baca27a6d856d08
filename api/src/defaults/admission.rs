//! Defaults of webhook configurations and admission policies.

use serde_json::{Value, json};

use super::{default, items, make, member};

pub(super) fn apply(kind: &str, object: &mut Value) {
    match kind {
        "ValidatingWebhookConfiguration" => items(object, "webhooks").for_each(webhook),
        "MutatingWebhookConfiguration" => items(object, "webhooks").for_each(|hook| {
            webhook(hook);
            default(hook, "reinvocationPolicy", "Never");
        }),
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
            let spec = make(object, "spec");
            default(spec, "failurePolicy", "Fail");
            if let Some(matching) = member(spec, "matchConstraints") {
                match_resources(matching);
            }
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            if let Some(matching) = member(make(object, "spec"), "matchResources") {
                match_resources(matching);
            }
        }
        _ => {}
    }
}

fn webhook(hook: &mut Value) {
    default(hook, "failurePolicy", "Fail");
    default(hook, "timeoutSeconds", 10);
    selectors(hook);
    items(hook, "rules").for_each(|rule| default(rule, "scope", "*"));
    if let Some(service) = member(make(hook, "clientConfig"), "service") {
        default(service, "port", 443);
    }
}

fn match_resources(matching: &mut Value) {
    selectors(matching);
    for rules in ["resourceRules", "excludeResourceRules"] {
        items(matching, rules).for_each(|rule| default(rule, "scope", "*"));
    }
}

fn selectors(matching: &mut Value) {
    default(matching, "matchPolicy", "Equivalent");
    default(matching, "namespaceSelector", json!({}));
    default(matching, "objectSelector", json!({}));
}
