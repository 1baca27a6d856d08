//! RuntimeClass: a pod gets the overhead of its RuntimeClass, and the node selector and tolerations for nodes
//! with that runtime.

use super::{row, tolerations};
use crate::plugin::{Cluster, Enabled, Plugin, Review, Row};
use crate::subject::Subject;
use kstore_api::admission::Operation;
use kstore_api::object::{list, text};
use kstore_api::quantity::Quantity;
use kstore_api::status::Status;
use kstore_registry::undecided::Undecided;
use serde_json::{Value, json};
use std::sync::Arc;

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
const WITHOUT: &str = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[("", "pods")],
    mutates: &[Operation::Create],
    validates: &[Operation::Create],
    ..Row::new("RuntimeClass", || Arc::new(RuntimeClass))
};

struct RuntimeClass;

impl Plugin for RuntimeClass {
    fn mutate(&self, review: &Review<'_>, pod: &mut Value) -> Result<(), Undecided> {
        let Review { cluster, subject, .. } = *review;
        let Some(class) = class_of(cluster, subject, pod)? else { return Ok(()) };
        let fixed = &class["overhead"]["podFixed"];
        if class["overhead"].is_object() {
            let own = &pod["spec"]["overhead"];
            if own.is_object() && !are_equal(own, fixed) {
                return subject.refuse(MISMATCH);
            }
            if fixed.is_object() {
                pod["spec"]["overhead"] = fixed.clone();
            }
        }
        if class["scheduling"].is_object() {
            schedule(subject, &class["scheduling"], &mut pod["spec"])?;
        }
        Ok(())
    }

    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, .. } = *review;
        let Some(pod) = new else { return Ok(()) };
        let class = class_of(cluster, subject, pod)?;
        let overhead = class.as_ref().map(|class| &class["overhead"]).filter(|overhead| overhead.is_object());
        match overhead {
            Some(overhead) if !are_equal(&overhead["podFixed"], &pod["spec"]["overhead"]) => {
                subject.refuse(MISMATCH)
            }
            None if pod["spec"]["overhead"].is_object() => subject.refuse(WITHOUT),
            _ => Ok(()),
        }
    }
}

fn class_of(cluster: &dyn Cluster, subject: &Subject<'_>, pod: &Value) -> Result<Option<Arc<Value>>, Status> {
    let Some(name) = pod["spec"]["runtimeClassName"].as_str() else { return Ok(None) };
    let class = cluster.get(row("node.k8s.io", "v1", "runtimeclasses"), "", name);
    let missing = || subject.forbidden(&format!("pod rejected: RuntimeClass {name:?} not found"));
    class.ok_or_else(missing).map(Some)
}

/// Whether two resource lists have equal amounts.
fn are_equal(left: &Value, right: &Value) -> bool {
    let amounts = |resources: &Value| -> Vec<(String, Option<Quantity>)> {
        let members = resources.as_object().into_iter().flatten();
        members.map(|(name, amount)| (name.clone(), Quantity::parse(text(amount)).ok())).collect()
    };
    amounts(left) == amounts(right)
}

fn schedule(subject: &Subject<'_>, scheduling: &Value, spec: &mut Value) -> Result<(), Status> {
    for (key, value) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let (own, wanted) = (&spec["nodeSelector"][key], text(value));
        if let Some(own) = own.as_str().filter(|own| *own != wanted) {
            return Err(subject.forbidden(&format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {own}"
            )));
        }
        spec["nodeSelector"][key] = json!(wanted);
    }
    let all = tolerations::merged(list(&spec["tolerations"]), list(&scheduling["tolerations"]));
    if !all.is_empty() {
        spec["tolerations"] = all.into();
    }
    Ok(())
}
