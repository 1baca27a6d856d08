//! Rules for a node's TokenRequests: only tokens that its pods mount. The texts are Kubernetes'.

use super::{Refusal, Verdict, refuse, require, row};
use crate::plugin::Cluster;
use kstore_access::pod_references::{self, items};
use kstore_api::meta;
use serde_json::Value;

/// The name of the pod to which the token is to be bound.
pub(super) fn pod_of(request: &Value) -> Result<&str, Refusal> {
    let reference = &request["spec"]["boundObjectRef"];
    let name = reference["name"].as_str().unwrap_or_default();
    if reference["apiVersion"] != "v1" || reference["kind"] != "Pod" || name.is_empty() {
        return Err(Refusal::Forbidden("node requested token not bound to a pod".to_owned()));
    }
    if reference["uid"].as_str().unwrap_or_default().is_empty() {
        let text = "node requested token with a pod binding without a uid";
        return Err(Refusal::Forbidden(text.to_owned()));
    }
    Ok(name)
}

/// Checks that the token is bound to this very pod, and the pod to the node.
pub(super) fn bound(node: &str, request: &Value, pod: &Value) -> Verdict {
    let uid = request["spec"]["boundObjectRef"]["uid"].as_str().unwrap_or_default();
    require(uid == meta::uid(pod), || {
        format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted \
             and then recreated"
        )
    })?;
    require(super::is_on(pod, node), || {
        "node requested token bound to a pod scheduled on a different node".to_owned()
    })
}

/// Checks that the pod mounts tokens for the requested audience. Without an audience it is the API server's.
pub(super) fn audience(node: &str, request: &Value, is_offered: impl FnOnce(&str) -> bool) -> Verdict {
    let mut audiences = items(&request["spec"]["audiences"]).filter_map(Value::as_str);
    let audience = audiences.next().unwrap_or_default();
    if audiences.next().is_some() {
        return refuse("node may only request 0 or 1 audiences");
    }
    require(is_offered(audience), || {
        format!(
            "audience {audience:?} not found in pod spec volume, system:node:{node} is not authorized to request tokens for this \
             audience"
        )
    })
}

/// Whether a volume of the pod projects tokens for an audience, or the CSI driver of a volume requests them.
pub(super) fn is_offered(audience: &str, pod: &Value, cluster: &dyn Cluster) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let projected = pod_references::projections(&pod["spec"])
        .filter(|source| source["serviceAccountToken"].is_object())
        .any(|source| text(&source["serviceAccountToken"]["audience"]) == audience);
    let of_driver = |driver: &str| {
        let driver = cluster.get(row("storage.k8s.io", "v1", "csidrivers"), "", driver);
        driver.is_some_and(|driver| {
            items(&driver["spec"]["tokenRequests"]).any(|request| text(&request["audience"]) == audience)
        })
    };
    projected || drivers(pod, cluster).iter().any(|driver| of_driver(driver))
}

/// The CSI drivers of a pod's volumes.
fn drivers(pod: &Value, cluster: &dyn Cluster) -> Vec<String> {
    let namespace = meta::namespace(pod);
    let of_claim = |claim: &str| {
        let claim = cluster.get(row("", "v1", "persistentvolumeclaims"), namespace, claim)?;
        let volume = claim["spec"]["volumeName"].as_str()?;
        let volume = cluster.get(row("", "v1", "persistentvolumes"), "", volume)?;
        volume["spec"]["csi"]["driver"].as_str().map(str::to_owned)
    };
    let of_volume = |volume: &Value| {
        if let Some(driver) = volume["csi"]["driver"].as_str() {
            return Some(driver.to_owned());
        }
        if let Some(claim) = volume["persistentVolumeClaim"]["claimName"].as_str() {
            return of_claim(claim);
        }
        volume["ephemeral"].is_object().then_some(())?;
        of_claim(&format!("{}-{}", meta::name(pod), volume["name"].as_str()?))
    };
    items(&pod["spec"]["volumes"]).filter_map(of_volume).collect()
}
