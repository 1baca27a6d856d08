//! The ImageReview of a pod and its answer: `imagepolicy.k8s.io/v1alpha1`. Pure.

use crate::subject::Subject;
use kstore_api::object::list;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The decision about the images of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ImageVerdict {
    /// The pod may run.
    Allowed {
        /// Audit annotations, without the prefix of their names.
        annotations: Vec<(String, String)>,
    },
    /// The pod may not run.
    Denied {
        /// The reason, or "".
        reason: String,
        /// Audit annotations, without the prefix of their names.
        annotations: Vec<(String, String)>,
    },
    /// The server gave no usable answer: the reason.
    Failed(String),
}

/// The review to send: the images of a pod, or of its ephemeral containers if the request is about those.
pub(super) fn of(subject: &Subject<'_>, pod: &Value) -> Value {
    let lists: &[&str] = match subject.subresource {
        "" => &["containers", "initContainers"],
        _ => &["ephemeralContainers"],
    };
    let containers = lists.iter().flat_map(|name| list(&pod["spec"][*name]));
    let images: Vec<Value> = containers
        .map(|container| match container["image"].as_str().unwrap_or_default() {
            "" => json!({}),
            image => json!({ "image": image }),
        })
        .collect();
    let mut spec = Map::new();
    if !images.is_empty() {
        spec.insert("containers".into(), images.into());
    }
    let all = pod["metadata"]["annotations"].as_object().into_iter().flatten();
    let sent: Map<String, Value> = all
        .filter(|(key, _)| key.contains(".image-policy.k8s.io/"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !sent.is_empty() {
        spec.insert("annotations".into(), sent.into());
    }
    spec.insert("namespace".into(), subject.namespace.into());
    json!({
        "kind": "ImageReview",
        "apiVersion": "imagepolicy.k8s.io/v1alpha1",
        "metadata": { "creationTimestamp": null },
        "spec": spec,
        "status": { "allowed": false },
    })
}

#[derive(Deserialize)]
struct Review {
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    allowed: bool,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    audit_annotations: Option<BTreeMap<String, String>>,
}

/// Interprets an answer. One without a status denies.
pub(super) fn read(body: &[u8]) -> Result<ImageVerdict, String> {
    let review: Review = serde_json::from_slice(body)
        .map_err(|error| format!("the webhook's answer is not an ImageReview: {error}"))?;
    let Status { allowed, reason, audit_annotations } = review.status;
    let annotations = audit_annotations.unwrap_or_default().into_iter().collect();
    Ok(if allowed {
        ImageVerdict::Allowed { annotations }
    } else {
        ImageVerdict::Denied { reason, annotations }
    })
}
