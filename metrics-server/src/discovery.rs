//! Discovery documents of the API group: constants, in the forms that clients and the apiserver's aggregator
//! read.

use crate::resource::{GROUP, Resource};
use serde_json::{Value, json};

/// The media type of aggregated discovery.
pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The verbs of every resource.
pub(crate) const VERBS: [&str; 2] = ["get", "list"];

/// `/apis` as aggregated discovery.
pub(crate) fn aggregated(versions: &[&str]) -> Value {
    let resources = |version: &str| {
        Resource::ALL.map(|resource| {
            json!({
                "resource": resource.plural(),
                "responseKind": {"group": GROUP, "version": version, "kind": resource.kind()},
                "scope": if resource.is_namespaced() { "Namespaced" } else { "Cluster" },
                "singularResource": "",
                "verbs": VERBS,
            })
        })
    };
    let of =
        |version: &&str| json!({"version": version, "resources": resources(version), "freshness": "Current"});
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": [{
            "metadata": {"name": GROUP, "creationTimestamp": null},
            "versions": versions.iter().map(of).collect::<Vec<_>>(),
        }],
    })
}

/// `/apis` for older clients.
pub(crate) fn groups(versions: &[&str]) -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [about_group(versions)]})
}

/// `/apis/metrics.k8s.io`.
pub(crate) fn group(versions: &[&str]) -> Value {
    let mut group = about_group(versions);
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    group
}

fn about_group(versions: &[&str]) -> Value {
    let of = |version: &&str| json!({"groupVersion": format!("{GROUP}/{version}"), "version": version});
    let versions: Vec<Value> = versions.iter().map(of).collect();
    json!({"name": GROUP, "versions": versions, "preferredVersion": versions[0]})
}

/// `/apis/metrics.k8s.io/v1beta1`, or another version.
pub(crate) fn resources(version: &str) -> Value {
    let resources = Resource::ALL.map(|resource| {
        json!({"name": resource.plural(), "singularName": "", "namespaced": resource.is_namespaced(),
            "kind": resource.kind(), "verbs": VERBS})
    });
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/{version}"), "resources": resources})
}
