//! Rules for a node's writes to pods and their claims. Pure; the texts are Kubernetes'.

use super::{Refusal, Verdict, is_on, refuse, require};
use kstore_access::pod_references::{self, items};
use kstore_api::meta;
use serde_json::Value;

/// Annotation of mirror pods, which represent pods that a node runs by itself.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";

/// Checks a pod that a node creates: a mirror pod of its own without references to API objects. `uid` looks
/// up the node's uid.
pub(super) fn created(node: &str, pod: &Value, uid: impl FnOnce() -> Result<String, Refusal>) -> Verdict {
    require(meta::annotation(pod, MIRROR).is_some(), || {
        format!("pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods")
    })?;
    require(is_on(pod, node), || {
        format!("node {node:?} can only create pods with spec.nodeName set to itself")
    })?;
    owned(node, &pod["metadata"]["ownerReferences"], uid)?;
    refers_to_nothing(node, &pod["spec"])
}

/// Checks that the node is the only owner of a mirror pod.
fn owned(node: &str, owners: &Value, uid: impl FnOnce() -> Result<String, Refusal>) -> Verdict {
    let can_only =
        |what: &str| refuse(format!("node {node:?} can only create pods with {what} set to itself"));
    let mut owners = items(owners);
    let Some(owner) = owners.next() else { return can_only("an owner reference") };
    if owners.next().is_some() {
        return can_only("a single owner reference");
    }
    if owner["apiVersion"] != "v1" || owner["kind"] != "Node" || owner["name"] != node {
        return can_only("an owner reference");
    }
    if owner["controller"] != true {
        return can_only("a controller owner reference");
    }
    if owner["blockOwnerDeletion"] == true {
        return refuse(format!("node {node:?} must not set blockOwnerDeletion on an owner reference"));
    }
    let (named, uid) = (owner["uid"].as_str().unwrap_or_default(), uid()?);
    require(named == uid, || format!("node {node} UID mismatch: expected {named} got {uid}"))
}

fn refers_to_nothing(node: &str, spec: &Value) -> Verdict {
    let has = |list: &str, member: &str| items(&spec[list]).any(|item| item[member].is_object());
    let account = ["serviceAccountName", "serviceAccount"].iter().any(|field| match spec[field].as_str() {
        Some(name) => !name.is_empty(),
        None => false,
    });
    let projects = |member: &str| pod_references::projections(spec).any(|source| source[member].is_object());
    let what = if account {
        "a service account"
    } else if pod_references::secrets(spec).next().is_some() {
        "secrets"
    } else if pod_references::config_maps(spec).next().is_some() {
        "configmaps"
    } else if projects("clusterTrustBundle") {
        "clustertrustbundles"
    } else if projects("podCertificate") {
        "podcertificates"
    } else if has("volumes", "persistentVolumeClaim") {
        "persistentvolumeclaims"
    } else if items(&spec["resourceClaims"]).next().is_some() {
        "resourceclaims"
    } else {
        return Ok(());
    };
    refuse(format!("node {node:?} can not create pods that reference {what}"))
}

/// Checks an update of a pod's status, which a node reports for the pods bound to it.
pub(super) fn status(node: &str, new: &Value, old: &Value) -> Verdict {
    require(is_on(old, node), || {
        format!("node {node:?} can only update pod status for pods with spec.nodeName set to itself")
    })?;
    let labels = |pod: &Value| pod["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    let are_same = new["metadata"]["labels"] == old["metadata"]["labels"] || labels(new) == labels(old);
    require(are_same, || format!("node {node:?} cannot update labels through pod status"))?;
    let claims = |pod: &Value| -> Vec<(Value, Value)> {
        let all = items(&pod["status"]["resourceClaimStatuses"]);
        all.map(|claim| (claim["name"].clone(), claim["resourceClaimName"].clone())).collect()
    };
    // `statues` is Kubernetes' spelling.
    require(claims(new) == claims(old), || format!("node {node:?} cannot update resource claim statues"))?;
    let extended = |pod: &Value| pod["status"]["extendedResourceClaimStatus"].clone();
    require(extended(new) == extended(old), || {
        format!("node {node:?} cannot update extended resource claim status")
    })
}

/// Checks an update of a claim's status: a node reports only the resizing of its volume.
pub(super) fn claim_status(node: &str, new: &Value, old: &Value) -> Verdict {
    const REPORTED: [&str; 4] = ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"];
    let rest = |claim: &Value| {
        let mut claim = claim.clone();
        if let Some(metadata) = claim["metadata"].as_object_mut() {
            metadata.retain(|name, value| {
                !matches!(&**name, "resourceVersion" | "managedFields") && !is_empty(value)
            });
        }
        if let Some(status) = claim["status"].as_object_mut() {
            status.retain(|name, _| !REPORTED.contains(&&**name));
        }
        claim
    };
    require(rest(new) == rest(old), || {
        format!(
            "node {node:?} is not allowed to update fields other than status.capacity and status.conditions"
        )
    })
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
