//! Table tests of validation: the YAML files in `cases`. A case is a new object, or a stored object with a
//! change, optionally through a subresource.

use crate::kind::known;
use crate::{defaults, object, strategy, validate};
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
    fn judge(mut self) -> Option<String> {
        let sample = self.object.as_ref().unwrap_or(&self.old);
        let row = known(object::api_version(sample), object::kind(sample));
        let row = row.unwrap_or_else(|| panic!("{}: no such kind", self.name));
        let complete = |object: &mut Value| {
            if row.namespaced && object["metadata"]["namespace"].is_null() {
                object["metadata"]["namespace"] = "ns".into();
            }
            defaults::apply(row, object);
        };
        let errors = if let Some(mut object) = self.object.take() {
            complete(&mut object);
            if row.is_stored() {
                strategy::prepare_create(row, &mut object);
                validate::create(row, &object)
            } else {
                validate::review(row, &object)
            }
        } else {
            let mut new = self.old.clone();
            merge(&mut new, &self.change);
            complete(&mut self.old);
            complete(&mut new);
            validate::update_subresource(row, &self.subresource, &new, &self.old)
        };
        let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let same = got.len() == self.errors.len()
            && got.iter().zip(&self.errors).all(|(got, want)| match want.strip_suffix('…') {
                Some(start) => got.starts_with(start),
                None => got == want,
            });
        (!same).then(|| format!("{}\n got: {got:#?}\nwant: {:#?}", self.name, self.errors))
    }
}

fn check(cases: &str) {
    let cases: Vec<Case> = serde_yaml_ng::from_str(cases).unwrap();
    let wrong: Vec<String> = cases.into_iter().filter_map(Case::judge).collect();
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
