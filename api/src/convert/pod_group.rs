//! Conversion of PodGroups and Workloads between `scheduling.k8s.io/v1alpha2`, which Kubernetes 1.36 stores, and `v1beta1`, which 1.37
//! does. Kubernetes has no such conversion: a data directory of one version is opened by the other.

use super::{put, take};
use serde_json::{Value, json};

/// Converts a PodGroup to `v1beta1`: the reference to its template and the disruption mode have other forms there.
pub(crate) fn to_beta(group: &mut Value) {
    let Some(spec) = group.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    let mut template = take(spec, "podGroupTemplateRef");
    let mut workload = take(&mut template, "workload");
    if workload.is_object() {
        let name = take(&mut workload, "podGroupTemplateName");
        put(&mut workload, "templateName", name);
    }
    put(spec, "workloadRef", workload);
    mode_to_beta(spec);
    if spec["disruptionMode"].is_null() {
        spec["disruptionMode"] = json!({"single": {}});
    }
}

/// Converts a PodGroup to `v1alpha2`.
pub(crate) fn to_alpha(group: &mut Value) {
    let Some(spec) = group.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    let mut workload = take(spec, "workloadRef");
    if workload.is_object() {
        let name = take(&mut workload, "templateName");
        put(&mut workload, "podGroupTemplateName", name);
        spec["podGroupTemplateRef"] = json!({ "workload": workload });
    }
    mode_to_alpha(spec);
}

/// Converts a Workload to `v1beta1`.
pub(crate) fn workload_to_beta(workload: &mut Value) {
    templates(workload).for_each(mode_to_beta);
}

/// Converts a Workload to `v1alpha2`.
pub(crate) fn workload_to_alpha(workload: &mut Value) {
    templates(workload).for_each(mode_to_alpha);
}

fn templates(workload: &mut Value) -> impl Iterator<Item = &mut Value> {
    let spec = workload.get_mut("spec");
    let templates = spec.and_then(|spec| spec.get_mut("podGroupTemplates")).and_then(Value::as_array_mut);
    templates.into_iter().flatten().filter(|template| template.is_object())
}

/// `Pod` and `PodGroup` become a union.
fn mode_to_beta(owner: &mut Value) {
    let mode = take(owner, "disruptionMode");
    match mode.as_str() {
        Some("PodGroup") => owner["disruptionMode"] = json!({"all": {}}),
        Some(_) => owner["disruptionMode"] = json!({"single": {}}),
        None => {}
    }
}

/// The mode of the union's first member; the default mode is left out, as 1.36 leaves it out.
fn mode_to_alpha(owner: &mut Value) {
    let mode = take(owner, "disruptionMode");
    if mode["all"].is_object() {
        owner["disruptionMode"] = "PodGroup".into();
    }
}
