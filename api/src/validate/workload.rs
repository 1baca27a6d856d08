//! What must hold of the kinds that keep pods running.

use serde_json::Value;

use super::check::{at_most_all, grammar, int_or_percent, none_negative, one_of, percent, required};
use super::{metadata, pod, selector};
use crate::field::{ErrorList, Path};
use crate::meta;
use crate::name;
use crate::object::{int, semantically_equal, text};

const SPEC: Path<'static> = Path::new("spec");

pub(super) fn deployment(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    none_negative(errors, &SPEC, spec, &["replicas"]);
    selector::of_template(errors, &SPEC, object, "deployment");
    long_running_template(object, errors);
    let (path, strategy) = (SPEC.child("strategy"), &spec["strategy"]);
    one_of(errors, &path.child("type"), &strategy["type"], &["Recreate", "RollingUpdate"]);
    let rolling = &strategy["rollingUpdate"];
    if strategy["type"] == "Recreate" && !rolling.is_null() {
        let detail = "may not be specified when strategy `type` is 'Recreate'";
        errors.forbidden(&path.child("rollingUpdate"), detail);
    } else if strategy["type"] == "RollingUpdate" {
        rolling_update(errors, &path.child("rollingUpdate"), rolling);
    }
    none_negative(
        errors,
        &SPEC,
        spec,
        &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"],
    );
    if let Some(deadline) = spec["progressDeadlineSeconds"].as_i64()
        && deadline <= int(&spec["minReadySeconds"])
    {
        errors.invalid(
            &SPEC.child("progressDeadlineSeconds"),
            &deadline,
            "must be greater than minReadySeconds",
        );
    }
}

fn is_zero(value: &Value) -> bool {
    *value == 0 || percent(value) == Some(0)
}

fn rolling_update(errors: &mut ErrorList, path: &Path<'_>, rolling: &Value) {
    let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
    int_or_percent(errors, &path.child("maxUnavailable"), unavailable);
    int_or_percent(errors, &path.child("maxSurge"), surge);
    if is_zero(unavailable) && is_zero(surge) {
        errors.invalid(&path.child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0");
    }
    at_most_all(errors, &path.child("maxUnavailable"), unavailable);
}

/// A template whose pods are to run until they are told to stop.
fn long_running_template(object: &Value, errors: &mut ErrorList) {
    let (path, template) = (SPEC.child("template"), &object["spec"]["template"]);
    pod::template(errors, &path, template);
    let (path, policy) = (path.child("spec"), text(&template["spec"]["restartPolicy"]));
    if policy != "Always" {
        errors.not_supported(&path.child("restartPolicy"), policy, &["Always"]);
    }
    if !template["spec"]["activeDeadlineSeconds"].is_null() {
        let detail = "activeDeadlineSeconds in ReplicaSet is not Supported";
        errors.forbidden(&path.child("activeDeadlineSeconds"), detail);
    }
}

pub(super) fn replica_set(object: &Value, errors: &mut ErrorList) {
    none_negative(errors, &SPEC, &object["spec"], &["replicas", "minReadySeconds"]);
    selector::of_template(errors, &SPEC, object, "deployment");
    long_running_template(object, errors);
}

pub(super) fn replication_controller(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    none_negative(errors, &SPEC, spec, &["minReadySeconds"]);
    let chosen = spec["selector"].as_object().filter(|selector| !selector.is_empty());
    if chosen.is_none() {
        errors.required(&SPEC.child("selector"), "");
    }
    none_negative(errors, &SPEC, spec, &["replicas"]);
    if spec["template"].is_null() {
        errors.required(&SPEC.child("template"), "");
        return;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if chosen.is_some_and(|selector| selector.iter().any(|(key, value)| labels[key] != *value)) {
        let path = SPEC.child("template.metadata.labels");
        errors.invalid(&path, labels, "`selector` does not match template `labels`");
    }
    long_running_template(object, errors);
}

pub(super) fn daemon_set(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    selector::of_template(errors, &SPEC, object, "daemonset");
    long_running_template(object, errors);
    none_negative(errors, &SPEC, spec, &["minReadySeconds", "revisionHistoryLimit"]);
    let (path, strategy) = (SPEC.child("updateStrategy"), &spec["updateStrategy"]);
    one_of(errors, &path.child("type"), &strategy["type"], &["OnDelete", "RollingUpdate"]);
    if strategy["type"] == "RollingUpdate" {
        rolling_update(errors, &path.child("rollingUpdate"), &strategy["rollingUpdate"]);
    }
}

pub(super) fn stateful_set(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    let policies = ["OrderedReady", "Parallel"];
    one_of(errors, &SPEC.child("podManagementPolicy"), &spec["podManagementPolicy"], &policies);
    let (path, strategy) = (SPEC.child("updateStrategy"), &spec["updateStrategy"]);
    one_of(errors, &path.child("type"), &strategy["type"], &["OnDelete", "RollingUpdate"]);
    if strategy["type"] == "OnDelete" && !strategy["rollingUpdate"].is_null() {
        let detail = "only allowed for updateStrategy 'RollingUpdate'";
        errors.invalid(&path.child("rollingUpdate"), &strategy["rollingUpdate"], detail);
    }
    none_negative(errors, &path.child("rollingUpdate"), &strategy["rollingUpdate"], &["partition"]);
    let retention = SPEC.child("persistentVolumeClaimRetentionPolicy");
    for member in ["whenDeleted", "whenScaled"] {
        let value = &spec["persistentVolumeClaimRetentionPolicy"][member];
        one_of(errors, &retention.child(member), value, &["Delete", "Retain"]);
    }
    none_negative(errors, &SPEC, spec, &["replicas", "minReadySeconds", "revisionHistoryLimit"]);
    none_negative(errors, &SPEC.child("ordinals"), &spec["ordinals"], &["start"]);
    selector::of_template(errors, &SPEC, object, "statefulset");
    long_running_template(object, errors);
    if !spec["serviceName"].is_null() && !text(&spec["serviceName"]).is_empty() {
        let service = text(&spec["serviceName"]);
        grammar(errors, &SPEC.child("serviceName"), service, name::dns1123_subdomain(service));
    }
    super::check::each(&SPEC, spec, "volumeClaimTemplates", |path, claim| {
        required(errors, &path.child("metadata.name"), &claim["metadata"]["name"]);
        metadata::labels(errors, &path.child("metadata.labels"), &claim["metadata"]["labels"]);
    });
}

/// New stateful sets must be able to name pods after themselves.
pub(super) fn stateful_set_name(object: &Value, errors: &mut ErrorList) {
    let own = meta::name(object);
    if !own.is_empty() && name::dns1123_subdomain(own).is_empty() {
        grammar(errors, &Path::new("metadata.name"), own, name::dns1123_label(own));
    }
}

const STATEFUL_SET_CHANGEABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

pub(super) fn stateful_set_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let fixed = |object: &Value| {
        let mut spec = object["spec"].clone();
        if let Some(members) = spec.as_object_mut() {
            members.retain(|member, _| !STATEFUL_SET_CHANGEABLE.contains(&member.as_str()));
        }
        spec
    };
    if !semantically_equal(&fixed(new), &fixed(old)) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.forbidden(&SPEC, detail);
    }
}
