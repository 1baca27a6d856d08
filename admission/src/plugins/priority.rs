//! Priority: the priority of a pod, and of a PodGroup since Kubernetes 1.37, is computed from its PriorityClass only, and at most one
//! class can be the default.

use super::row;
use crate::plugin::{Cluster, Enabled, Plugin, Review, Row};
use crate::subject::Subject;
use kstore_api::admission::Operation;
use kstore_api::meta;
use kstore_api::status::Status;
use kstore_api::version::Minor;
use kstore_registry::undecided::Undecided;
use serde_json::{Value, json};
use std::sync::Arc;

const PREEMPT: &str = "PreemptLowerPriority";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[("", "pods"), ("scheduling.k8s.io", "podgroups"), ("scheduling.k8s.io", "priorityclasses")],
    mutates: &[Operation::Create, Operation::Update],
    validates: &[Operation::Create, Operation::Update],
    ..Row::new("Priority", || Arc::new(Priority))
};

struct Priority;

impl Plugin for Priority {
    fn mutate(&self, review: &Review<'_>, object: &mut Value) -> Result<(), Undecided> {
        let Review { cluster, subject, old, .. } = *review;
        let resource = subject.resource;
        // Until 1.36 the priority of a group is a member of a feature that is off.
        let is_group = resource.is("scheduling.k8s.io", "podgroups") && resource.minor >= Minor::V37;
        if !(resource.is("", "pods") || is_group) || !object["spec"].is_object() {
            return Ok(());
        }
        let spec = &mut object["spec"];
        if let (Operation::Update, Some(old)) = (subject.operation, old) {
            keep(spec, &old["spec"]);
        }
        if subject.operation != Operation::Create {
            return Ok(());
        }
        let class = class_of(cluster, subject, spec)?;
        let value = class.as_ref().and_then(|class| class["value"].as_i64()).unwrap_or(0);
        let policy = class.as_ref().and_then(|class| class["preemptionPolicy"].as_str()).unwrap_or(PREEMPT);
        let of = if is_group { "pod group" } else { "pod" };
        if let Some(given) = spec["priority"].as_i64().filter(|given| *given != value) {
            return subject.refuse(&format!(
                "the integer value of priority ({given}) must not be provided in {of} spec; priority admission controller computed {value} from the given PriorityClass name"
            ));
        }
        let policy = (!is_group).then_some(policy);
        if let Some(policy) = policy
            && let Some(given) = spec["preemptionPolicy"].as_str().filter(|given| *given != policy)
        {
            return subject.refuse(&format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
            ));
        }
        if let Some(class) = &class {
            spec["priorityClassName"] = json!(meta::name(class));
        }
        spec["priority"] = json!(value);
        if let Some(policy) = policy {
            spec["preemptionPolicy"] = json!(policy);
        }
        Ok(())
    }

    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, .. } = *review;
        let Some(class) = new.filter(|_| subject.resource.is("scheduling.k8s.io", "priorityclasses")) else {
            return Ok(());
        };
        if class["globalDefault"] != true {
            return Ok(());
        }
        match default_class(cluster).filter(|other| meta::name(other) != subject.name) {
            Some(other) => subject.refuse(&format!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                meta::name(&other)
            )),
            None => Ok(()),
        }
    }
}

/// The PriorityClass that a spec names, else the default one, if there is any.
fn class_of(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    spec: &Value,
) -> Result<Option<Arc<Value>>, Status> {
    let named = spec["priorityClassName"].as_str().unwrap_or_default();
    if named.is_empty() {
        return Ok(default_class(cluster));
    }
    let found = cluster.get(classes(), "", named);
    let missing = || subject.forbidden(&format!("no PriorityClass with name {named} was found"));
    found.map(Some).ok_or_else(missing)
}

/// Keeps the computed priority if an update omits it.
fn keep(spec: &mut Value, old: &Value) {
    for name in ["priority", "preemptionPolicy"] {
        if spec[name].is_null() && !old[name].is_null() {
            spec[name] = old[name].clone();
        }
    }
}

fn classes() -> &'static kstore_api::resource::Resource {
    row("scheduling.k8s.io", "v1", "priorityclasses")
}

/// The default class for pods that name none. If there are several, the one with the lowest value counts, as
/// in Kubernetes.
fn default_class(cluster: &dyn Cluster) -> Option<Arc<Value>> {
    let defaults = cluster.list(classes(), "").into_iter().filter(|class| class["globalDefault"] == true);
    defaults.min_by_key(|class| class["value"].as_i64().unwrap_or(0))
}
