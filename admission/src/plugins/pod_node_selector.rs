//! PodNodeSelector: the node selector in an annotation of a namespace is added to all its pods. A
//! configuration has a selector for namespaces without the annotation, and the labels that the selectors of
//! pods in a namespace may name.

use crate::plugin::{Cluster, Configuration, ConfigurationContext, Plugin, Review, Row};
use crate::subject::Subject;
use kstore_api::admission::Operation;
use kstore_api::meta;
use kstore_api::status::Status;
use kstore_registry::registry::namespaces;
use kstore_registry::undecided::Undecided;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";
const CONFLICT: &str = "pod node label selector conflicts with its namespace node label selector";

/// The key of the selector for namespaces without the annotation.
const DEFAULT: &str = "clusterDefaultNodeSelector";
const NOT_ALLOWED: &str = "pod node label selector labels conflict with its namespace whitelist";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    pod_node_selector_plugin_config: BTreeMap<String, String>,
}

type Labels = BTreeMap<String, String>;

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    kinds: &[("", "pods")],
    configuration: Configuration::Optional(PodNodeSelector::configured),
    mutates: &[Operation::Create],
    validates: &[Operation::Create],
    ..Row::new("PodNodeSelector", || {
        Arc::new(PodNodeSelector { default: BTreeMap::new(), allowed: BTreeMap::new() })
    })
};

struct PodNodeSelector {
    /// The selector of namespaces without the annotation.
    default: Labels,
    /// The labels that selectors of pods may name, by namespace.
    allowed: BTreeMap<String, Labels>,
}

impl PodNodeSelector {
    /// The plugin by an object with the member `podNodeSelectorPluginConfig`.
    ///
    /// # Errors
    /// The field that cannot be used.
    fn configured(document: Value, _: &ConfigurationContext<'_>) -> Result<Arc<dyn Plugin>, String> {
        let configuration: Document = serde_json::from_value(document).map_err(|error| error.to_string())?;
        let mut allowed = BTreeMap::new();
        for (namespace, text) in configuration.pod_node_selector_plugin_config {
            let labels =
                parse(&text).map_err(|why| format!("podNodeSelectorPluginConfig.{namespace}: {why}"))?;
            allowed.insert(namespace, labels);
        }
        Ok(Arc::new(Self { default: allowed.remove(DEFAULT).unwrap_or_default(), allowed }))
    }

    /// The node selector that the namespace requires of a new pod.
    fn selector(&self, cluster: &dyn Cluster, subject: &Subject<'_>) -> Result<Labels, Status> {
        let namespace = cluster.get(namespaces(), "", subject.namespace);
        match namespace.as_ref().and_then(|namespace| meta::annotation(namespace, ANNOTATION)) {
            Some(text) => parse(text).map_err(Status::unclassified),
            None => Ok(self.default.clone()),
        }
    }

    /// Checks the labels in a pod's selector against those allowed in its namespace. An empty list allows all.
    fn check_allowed(&self, subject: &Subject<'_>, pod: &Value) -> Result<(), Status> {
        let Some(allowed) = self.allowed.get(subject.namespace).filter(|allowed| !allowed.is_empty()) else {
            return Ok(());
        };
        let mut own = pod["spec"]["nodeSelector"].as_object().into_iter().flatten();
        let is_allowed = own.all(|(key, value)| allowed.get(key).is_some_and(|allowed| value == allowed));
        if is_allowed { Ok(()) } else { Err(subject.forbidden(NOT_ALLOWED)) }
    }
}

impl Plugin for PodNodeSelector {
    fn mutate(&self, review: &Review<'_>, pod: &mut Value) -> Result<(), Undecided> {
        let Review { cluster, subject, .. } = *review;
        let wanted = self.selector(cluster, subject)?;
        conflict(subject, &wanted, pod)?;
        for (key, value) in wanted {
            pod["spec"]["nodeSelector"][key] = json!(value);
        }
        Ok(self.check_allowed(subject, pod)?)
    }

    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, .. } = *review;
        let Some(pod) = new else { return Ok(()) };
        conflict(subject, &self.selector(cluster, subject)?, pod)?;
        Ok(self.check_allowed(subject, pod)?)
    }
}

fn conflict(subject: &Subject<'_>, wanted: &Labels, pod: &Value) -> Result<(), Status> {
    let own = &pod["spec"]["nodeSelector"];
    let differs = |(key, value): (&String, &String)| own[key].as_str().is_some_and(|own| own != value);
    if wanted.iter().any(differs) { Err(subject.forbidden(CONFLICT)) } else { Ok(()) }
}

/// Parses labels in the form `key=value,key=value`.
fn parse(text: &str) -> Result<Labels, String> {
    let labels = text.split(',').filter(|_| !text.is_empty()).map(|label| {
        let parts: Vec<&str> = label.split('=').collect();
        match parts.as_slice() {
            [key, value] => Ok((key.trim().to_owned(), value.trim().to_owned())),
            _ => Err(format!("invalid selector: [{}]", parts.join(" "))),
        }
    });
    labels.collect()
}
