//! PodNodeSelector: the node selector in an annotation of a namespace is added to all its pods. The plugin
//! has no configuration file: there is no cluster default selector, and no list of allowed selectors per
//! namespace.

use super::{Operation, Plugin, Subject};
use crate::lookup::Lookup;
use crate::registry::namespaces;
use kstore_api::meta;
use kstore_api::status::Status;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";
const CONFLICT: &str = "pod node label selector conflicts with its namespace node label selector";

pub(super) struct PodNodeSelector;

impl Plugin for PodNodeSelector {
    fn mutate(
        &self,
        cluster: &dyn Lookup,
        subject: &Subject<'_>,
        pod: &mut Value,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        let wanted = selector(cluster, subject)?;
        conflict(subject, &wanted, pod)?;
        for (key, value) in wanted {
            pod["spec"]["nodeSelector"][key] = json!(value);
        }
        Ok(())
    }

    fn validate(
        &self,
        cluster: &dyn Lookup,
        subject: &Subject<'_>,
        new: Option<&Value>,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(pod) = new else { return Ok(()) };
        conflict(subject, &selector(cluster, subject)?, pod)
    }
}

fn conflict(subject: &Subject<'_>, wanted: &BTreeMap<String, String>, pod: &Value) -> Result<(), Status> {
    let own = &pod["spec"]["nodeSelector"];
    let differs = |(key, value): (&String, &String)| own[key].as_str().is_some_and(|own| own != value);
    if wanted.iter().any(differs) { Err(subject.forbidden(CONFLICT)) } else { Ok(()) }
}

/// The node selector that the namespace requires of a new pod.
fn selector(cluster: &dyn Lookup, subject: &Subject<'_>) -> Result<BTreeMap<String, String>, Status> {
    if subject.operation != Operation::Create || !subject.subresource.is_empty() {
        return Ok(BTreeMap::new());
    }
    let namespace = cluster.get(namespaces(), "", subject.namespace);
    let annotation = namespace.as_ref().and_then(|namespace| meta::annotation(namespace, ANNOTATION));
    parse(annotation.unwrap_or_default()).map_err(Status::unclassified)
}

/// Parses labels in the form `key=value,key=value`.
fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let labels = text.split(',').filter(|_| !text.is_empty()).map(|label| {
        let parts: Vec<&str> = label.split('=').collect();
        match parts.as_slice() {
            [key, value] => Ok((key.trim().to_owned(), value.trim().to_owned())),
            _ => Err(format!("invalid selector: [{}]", parts.join(" "))),
        }
    });
    labels.collect()
}
