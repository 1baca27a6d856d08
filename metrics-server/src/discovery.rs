//! Discovery documents of the API group: constants, in the forms that clients and the apiserver's aggregator
//! read.

use crate::resource::{GROUP, Resource, VERSION};
use serde_json::{Value, json};

/// The media type of aggregated discovery.
pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The verbs of every resource.
pub(crate) const VERBS: [&str; 2] = ["get", "list"];

/// `/apis` as aggregated discovery.
pub(crate) fn aggregated() -> Value {
    let resources = Resource::ALL.map(|resource| {
        json!({
            "resource": resource.plural(),
            "responseKind": {"group": GROUP, "version": VERSION, "kind": resource.kind()},
            "scope": if resource.is_namespaced() { "Namespaced" } else { "Cluster" },
            "singularResource": "",
            "verbs": VERBS,
        })
    });
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": [{
            "metadata": {"name": GROUP, "creationTimestamp": null},
            "versions": [{"version": VERSION, "resources": resources, "freshness": "Current"}],
        }],
    })
}

/// `/apis` for older clients.
pub(crate) fn groups() -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [about_group()]})
}

/// `/apis/metrics.k8s.io`.
pub(crate) fn group() -> Value {
    let mut group = about_group();
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    group
}

fn about_group() -> Value {
    let version = json!({"groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION});
    json!({"name": GROUP, "versions": [&version], "preferredVersion": &version})
}

/// `/apis/metrics.k8s.io/v1beta1`.
pub(crate) fn resources() -> Value {
    let resources = Resource::ALL.map(|resource| {
        json!({"name": resource.plural(), "singularName": "", "namespaced": resource.is_namespaced(),
            "kind": resource.kind(), "verbs": VERBS})
    });
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/{VERSION}"), "resources": resources})
}
