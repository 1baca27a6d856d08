//! PodTolerationRestriction: annotations of a namespace set default and allowed tolerations of its pods. A
//! configuration has those of namespaces without the annotations.

use super::tolerations;
use crate::plugin::{Cluster, Configuration, ConfigurationContext, Plugin, Review, Row, read_document};
use crate::subject::Subject;
use kstore_api::admission::Operation;
use kstore_api::meta;
use kstore_api::object::list;
use kstore_api::status::Status;
use kstore_api::strategy::qos_class;
use kstore_registry::registry::namespaces;
use kstore_registry::undecided::Undecided;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

const DEFAULTS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const ALLOWED: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";
const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";

const VERSIONS: &[&str] = &["podtolerationrestriction.admission.k8s.io/v1alpha1"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    default: Vec<TolerationEntry>,
    #[serde(default)]
    whitelist: Vec<TolerationEntry>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TolerationEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    toleration_seconds: Option<i64>,
}

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    kinds: &[("", "pods")],
    configuration: Configuration::Optional(PodTolerationRestriction::configured),
    mutates: &[Operation::Create, Operation::Update],
    validates: &[Operation::Create, Operation::Update],
    ..Row::new("PodTolerationRestriction", || {
        Arc::new(PodTolerationRestriction { default: Vec::new(), allowed: Vec::new() })
    })
};

struct PodTolerationRestriction {
    /// Default tolerations of namespaces without the annotation.
    default: Vec<Value>,
    /// Allowed tolerations of namespaces without the annotation; empty: all.
    allowed: Vec<Value>,
}

impl PodTolerationRestriction {
    /// The plugin by a `Configuration` of `podtolerationrestriction.admission.k8s.io/v1alpha1`.
    ///
    /// # Errors
    /// The field that cannot be used.
    fn configured(document: Value, _: &ConfigurationContext<'_>) -> Result<Arc<dyn Plugin>, String> {
        let Document { default, whitelist } = read_document(document, VERSIONS, "Configuration")?;
        let values = |field: &str, entries: Vec<TolerationEntry>| {
            let entries = entries.into_iter().enumerate();
            let value = |(index, entry)| {
                check_entry(&entry).map_err(|why| format!("{field}[{index}].{why}"))?;
                serde_json::to_value(entry).map_err(|error| error.to_string())
            };
            entries.map(value).collect::<Result<Vec<_>, String>>()
        };
        let (default, allowed) = (values("default", default)?, values("whitelist", whitelist)?);
        Ok(Arc::new(Self { default, allowed }))
    }

    fn check(&self, cluster: &dyn Cluster, subject: &Subject<'_>, pod: &Value) -> Result<(), Status> {
        let own = list(&pod["spec"]["tolerations"]);
        if own.is_empty() {
            return Ok(());
        }
        let mut allowed = annotated(cluster, subject, ALLOWED)?;
        if allowed.is_empty() {
            allowed.clone_from(&self.allowed);
        }
        let is_allowed = |own: &Value| allowed.iter().any(|wide| tolerations::covers(wide, own));
        if allowed.is_empty() || own.iter().all(is_allowed) {
            return Ok(());
        }
        Err(Status::unclassified(
            "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist",
        ))
    }
}

/// Checks the operator and the effect of a configured toleration.
fn check_entry(entry: &TolerationEntry) -> Result<(), String> {
    let is_one_of = |value: &Option<String>, known: &[&str]| {
        value.as_ref().is_none_or(|value| value.is_empty() || known.contains(&value.as_str()))
    };
    if !is_one_of(&entry.operator, &["Equal", "Exists"]) {
        return Err(format!("operator: expected Equal or Exists, found {:?}", entry.operator));
    }
    if !is_one_of(&entry.effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]) {
        return Err(format!(
            "effect: expected NoSchedule, PreferNoSchedule or NoExecute, found {:?}",
            entry.effect
        ));
    }
    Ok(())
}

impl Plugin for PodTolerationRestriction {
    fn mutate(&self, review: &Review<'_>, pod: &mut Value) -> Result<(), Undecided> {
        let Review { cluster, subject, .. } = *review;
        let mut all = list(&pod["spec"]["tolerations"]).to_vec();
        if subject.operation == Operation::Create {
            let mut defaults = annotated(cluster, subject, DEFAULTS)?;
            if defaults.is_empty() {
                defaults.clone_from(&self.default);
            }
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
        Ok(self.check(cluster, subject, pod)?)
    }

    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, .. } = *review;
        new.map_or(Ok(()), |pod| Ok(self.check(cluster, subject, pod)?))
    }
}

/// The tolerations in an annotation of the pod's namespace.
fn annotated(cluster: &dyn Cluster, subject: &Subject<'_>, key: &str) -> Result<Vec<Value>, Status> {
    let namespace = cluster.get(namespaces(), "", subject.namespace);
    let text = namespace.as_ref().and_then(|namespace| meta::annotation(namespace, key)).unwrap_or_default();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(text).map_err(|error| Status::unclassified(format!("annotation {key}: {error}")))
}
