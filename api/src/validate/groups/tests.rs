//! Table tests of validation: the YAML files in `cases`. A case is a new object, or a stored object with a
//! change, optionally through a subresource.

use crate::field::ErrorList;
use crate::validate::tests::{judged, row_of};
use crate::version::Minor;
use crate::{defaults, strategy, validate};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Case {
    name: String,
    /// A new object.
    object: Option<Value>,
    /// A stored object.
    #[serde(default)]
    old: Value,
    /// Merge patch for `old` that makes the new object.
    #[serde(default)]
    change: Value,
    /// Subresource of the write; empty for the object itself.
    #[serde(default)]
    subresource: String,
    /// Expected errors as `path: body`, in order; a trailing `…` stands for the rest of a long text.
    #[serde(default)]
    errors: Vec<String>,
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

impl Case {
    fn judge(&self) -> Option<String> {
        judged(&self.name, &self.errors, |minor| {
            self.errors_in(minor).iter().map(ToString::to_string).collect()
        })
    }

    /// The errors of the case in a version of Kubernetes.
    fn errors_in(&self, minor: Minor) -> ErrorList {
        let sample = self.object.as_ref().unwrap_or(&self.old);
        let row = row_of(minor, sample).unwrap_or_else(|| panic!("{}: no such kind", self.name));
        let complete = |object: &mut Value| {
            if row.namespaced && object["metadata"]["namespace"].is_null() {
                object["metadata"]["namespace"] = "ns".into();
            }
            defaults::apply(row, object);
        };
        if let Some(mut object) = self.object.clone() {
            complete(&mut object);
            if !row.is_stored() {
                return validate::review(row, &object);
            }
            strategy::prepare_create(row, &mut object);
            return validate::create(row, &object);
        }
        let (mut new, mut old) = (self.old.clone(), self.old.clone());
        merge(&mut new, &self.change);
        complete(&mut old);
        complete(&mut new);
        validate::update_subresource(row, &self.subresource, &new, &old)
    }
}

fn check(cases: &str) {
    let cases: Vec<Case> = serde_yaml_ng::from_str(cases).unwrap();
    let wrong: Vec<String> = cases.iter().filter_map(Case::judge).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Defines a test for each file of cases.
macro_rules! cases {
    ($($name:ident = $file:literal;)*) => {
        $(#[test]
        fn $name() {
            check(include_str!(concat!("cases/", $file, ".yaml")));
        })*
    };
}

cases! {
    webhooks_and_policies_are_judged = "admission";
    autoscalers_and_budgets_are_judged = "autoscaling";
    signing_requests_are_judged = "certificates";
    devices_are_judged = "devices";
    new_events_are_judged = "events";
    flow_control_is_judged = "flowcontrol";
    networks_are_judged = "networking";
    roles_are_judged = "rbac";
    api_services_are_judged = "registration";
    reviews_are_judged = "reviews";
    classes_and_leases_are_judged = "scheduling";
    storage_is_judged = "storage";
    optional_kinds_are_judged = "optional";
}
