//! LimitRanger: pods get the default requests and limits of their namespace's LimitRanges, and pods and
//! volume claims must stay within its bounds. Changed resources of a running pod are checked when it is
//! resized.

mod constraints;
mod defaults;
pub(super) mod totals;

use super::row;
use crate::plugin::{Cluster, Enabled, Plugin, Review, Row};
use crate::subject::Subject;
use kstore_api::admission::Operation;
use kstore_api::meta;
use kstore_api::object::list;
use kstore_api::quantity::Quantity;
use kstore_api::resource::Resource;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[("", "pods"), ("", "persistentvolumeclaims")],
    subresources: &["", "resize"],
    mutates: &[Operation::Create, Operation::Update],
    validates: &[Operation::Create, Operation::Update],
    ..Row::new("LimitRanger", || Arc::new(LimitRanger))
};

struct LimitRanger;

impl Plugin for LimitRanger {
    fn mutate(&self, review: &Review<'_>, pod: &mut Value) -> Result<(), Undecided> {
        let Review { cluster, subject, old, .. } = *review;
        if subject.resource.is("", "pods") && is_judged(subject, old) {
            for range in ranges(cluster, subject) {
                defaults::fill(pod, limits(&range));
            }
        }
        Ok(())
    }

    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, old, .. } = *review;
        let Some(new) = new.filter(|_| is_judged(subject, old)) else { return Ok(()) };
        let violations = match subject.resource.plural {
            "pods" => constraints::of_pod,
            _ => constraints::of_claim,
        };
        // The first violated LimitRange refuses, as in Kubernetes.
        for range in ranges(cluster, subject) {
            let mut texts = violations(new, limits(&range));
            match texts.len() {
                0 => {}
                1 => return subject.refuse(&texts.remove(0)),
                _ => return subject.refuse(&format!("[{}]", texts.join(", "))),
            }
        }
        Ok(())
    }
}

/// Whether the plugin checks a request: new pods, resizes of pods, and all writes of claims. Other updates
/// cannot change a pod's resources. Objects that are being deleted are not checked.
fn is_judged(subject: &Subject<'_>, old: Option<&Value>) -> bool {
    if old.is_some_and(meta::is_being_deleted) {
        return false;
    }
    match (subject.resource.plural, subject.operation) {
        ("pods", Operation::Create) => subject.subresource.is_empty(),
        ("pods", Operation::Update) => subject.subresource == "resize",
        (_, Operation::Create | Operation::Update) => subject.subresource.is_empty(),
        _ => false,
    }
}

/// The LimitRanges of the request's namespace, in name order.
fn ranges(cluster: &dyn Cluster, subject: &Subject<'_>) -> Vec<Arc<Value>> {
    static ROW: OnceLock<&'static Resource> = OnceLock::new();
    cluster.list(ROW.get_or_init(|| row("", "v1", "limitranges")), subject.namespace)
}

fn limits(range: &Value) -> &[Value] {
    list(&range["spec"]["limits"])
}

/// The quantity of a resource in a resource list, if it is present.
fn quantity(resources: &Value, name: &str) -> Option<Quantity> {
    match &resources[name] {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
