//! Validation of workloads, one file per kind.

mod daemon_set;
mod deployment;
mod replica_set;
mod replication_controller;
mod revision;
mod stateful_set;
pub(crate) mod status;

use super::pod;
use super::selector::{self, Usable};
use crate::check::{at_most_100_percent, int_or_percent};
use crate::field::{ErrorList, Path};
use crate::object::text;
pub(crate) use daemon_set::{change as daemon_set_change, content as daemon_set};
pub(crate) use deployment::content as deployment;
pub(crate) use replica_set::content as replica_set;
pub(crate) use replication_controller::content as replication_controller;
pub(crate) use revision::{change as revision_change, content as revision, create as revision_create};
use serde_json::Value;
pub(crate) use stateful_set::{
    change as stateful_set_change, content as stateful_set, create as stateful_set_create,
};

const SPEC: Path<'static> = Path::new("spec");

/// Checks the pod template of a workload whose pods run indefinitely. `kind` is the owner's name in messages.
fn template(object: &Value, kind: &str, errors: &mut ErrorList) {
    let path = SPEC.child("template");
    pod::template(errors, &path, &object["spec"]["template"]);
    runs_on(object, kind, errors);
}

/// Checks selector and template of a deployment or replica set; the template only if the selector is valid.
fn selected_template(object: &Value, errors: &mut ErrorList) {
    let said = ("deployment", "invalid label selector");
    if selector::of_template(errors, &SPEC, object, said) == Usable::Yes {
        template(object, "ReplicaSet", errors);
    }
}

fn runs_on(object: &Value, kind: &str, errors: &mut ErrorList) {
    let (path, spec) = (SPEC.child("template.spec"), &object["spec"]["template"]["spec"]);
    if spec["restartPolicy"] != "Always" {
        errors.not_supported(&path.child("restartPolicy"), text(&spec["restartPolicy"]), &["Always"]);
    }
    if !spec["activeDeadlineSeconds"].is_null() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(&path.child("activeDeadlineSeconds"), detail);
    }
}

/// Whether a count or percentage is zero; unreadable texts count as zero.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.strip_suffix('%').unwrap_or(text).parse::<i64>().unwrap_or_default() == 0,
        other => other.as_i64().unwrap_or_default() == 0,
    }
}

/// Checks counts or percentages of a rolling update.
fn amounts(errors: &mut ErrorList, path: &Path<'_>, rolling: &Value) {
    for member in ["maxUnavailable", "maxSurge"] {
        int_or_percent(errors, &path.child(member), &rolling[member]);
    }
}

/// The value that Kubernetes prints for a strategy of unknown type.
fn strategy_text(strategy: &Value) -> String {
    let rolling = &strategy["rollingUpdate"];
    let rolling = if rolling.is_null() {
        "null".to_owned()
    } else {
        let amount = |member: &str| match &rolling[member] {
            Value::Null => Value::from(0),
            value => value.clone(),
        };
        format!(r#"{{"MaxUnavailable":{},"MaxSurge":{}}}"#, amount("maxUnavailable"), amount("maxSurge"))
    };
    format!(r#"{{"Type":{},"RollingUpdate":{rolling}}}"#, Value::from(text(&strategy["type"])))
}
