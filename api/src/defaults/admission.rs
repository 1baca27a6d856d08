//! Defaults of webhook configurations and admission policies.
//!
//! Follows `SetDefaults_ValidatingWebhook` and `SetDefaults_MutatingWebhook`.

use super::{default, items, make, member};
use serde_json::{Value, json};

pub(crate) fn validating_webhooks(object: &mut Value) {
    items(object, "webhooks").for_each(webhook);
}

pub(crate) fn mutating_webhooks(object: &mut Value) {
    items(object, "webhooks").for_each(|hook| {
        webhook(hook);
        default(hook, "reinvocationPolicy", "Never");
    });
}

/// Sets the defaults of a policy of either kind.
pub(crate) fn policy(object: &mut Value) {
    let spec = make(object, "spec");
    default(spec, "failurePolicy", "Fail");
    if let Some(matching) = member(spec, "matchConstraints") {
        match_resources(matching);
    }
}

/// Sets the defaults of a binding of either kind.
pub(crate) fn binding(object: &mut Value) {
    if let Some(matching) = member(make(object, "spec"), "matchResources") {
        match_resources(matching);
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
