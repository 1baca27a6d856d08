//! PodTolerationRestriction: annotations of a namespace set default and allowed tolerations of its pods. The
//! plugin has no configuration file, so namespaces without the annotations have neither.

use super::{Operation, Plugin, Subject, tolerations};
use crate::lookup::Lookup;
use crate::registry::namespaces;
use kstore_api::meta;
use kstore_api::object::list;
use kstore_api::status::Status;
use kstore_api::strategy::qos_class;
use serde_json::{Value, json};

const DEFAULTS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const ALLOWED: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";
const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";

pub(super) struct PodTolerationRestriction;

impl Plugin for PodTolerationRestriction {
    fn mutate(
        &self,
        cluster: &dyn Lookup,
        subject: &Subject<'_>,
        pod: &mut Value,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        if !concerns(subject) {
            return Ok(());
        }
        let mut all = list(&pod["spec"]["tolerations"]).to_vec();
        if subject.operation == Operation::Create {
            let defaults = annotated(cluster, subject, DEFAULTS)?;
            if !defaults.is_empty() {
                all = tolerations::merged(&defaults, &all);
            }
        }
        if qos_class(pod) != "BestEffort" {
            let pressure = json!({ "key": MEMORY_PRESSURE, "operator": "Exists", "effect": "NoSchedule" });
            all = tolerations::merged(&all, &[pressure]);
        }
        if !all.is_empty() {
            pod["spec"]["tolerations"] = all.into();
        }
        check(cluster, subject, pod)
    }

    fn validate(
        &self,
        cluster: &dyn Lookup,
        subject: &Subject<'_>,
        new: Option<&Value>,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        new.filter(|_| concerns(subject)).map_or(Ok(()), |pod| check(cluster, subject, pod))
    }
}

fn concerns(subject: &Subject<'_>) -> bool {
    matches!(subject.operation, Operation::Create | Operation::Update) && subject.subresource.is_empty()
}

fn check(cluster: &dyn Lookup, subject: &Subject<'_>, pod: &Value) -> Result<(), Status> {
    let own = list(&pod["spec"]["tolerations"]);
    if own.is_empty() {
        return Ok(());
    }
    let allowed = annotated(cluster, subject, ALLOWED)?;
    if allowed.is_empty() || own.iter().all(|own| allowed.iter().any(|wide| tolerations::covers(wide, own))) {
        return Ok(());
    }
    Err(Status::unclassified(
        "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist",
    ))
}

/// The tolerations in an annotation of the pod's namespace.
fn annotated(cluster: &dyn Lookup, subject: &Subject<'_>, key: &str) -> Result<Vec<Value>, Status> {
    let namespace = cluster.get(namespaces(), "", subject.namespace);
    let text = namespace.as_ref().and_then(|namespace| meta::annotation(namespace, key)).unwrap_or_default();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(text).map_err(|error| Status::unclassified(format!("annotation {key}: {error}")))
}
