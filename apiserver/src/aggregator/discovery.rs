//! Parsing of an aggregated API server's discovery: from aggregated discovery (apidiscovery.k8s.io/v2) or, if it has none, from the
//! `APIResourceList` of one group and version. Both become resources of aggregated discovery. Pure.

use kstore_api::object::{list, text};
use serde_json::{Map, Value, json};

/// The `Accept` header: aggregated discovery, or plain JSON of older servers.
pub(super) const ACCEPT: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// Whether a response with this `Content-Type` is aggregated discovery; older servers return an `APIGroupList`.
pub(super) fn is_aggregated(content_type: &str) -> bool {
    content_type.contains("as=APIGroupDiscoveryList")
}

/// The resources of a group and version in an aggregated document; `None` if the document lacks them.
pub(super) fn of_aggregated(document: &Value, group: &str, version: &str) -> Option<Value> {
    let group = list(&document["items"]).iter().find(|item| item["metadata"]["name"] == group)?;
    let version = list(&group["versions"]).iter().find(|item| item["version"] == version)?;
    Some(match &version["resources"] {
        Value::Array(resources) => Value::Array(resources.clone()),
        _ => json!([]),
    })
}

/// The resources in an `APIResourceList`, in the form of aggregated discovery.
pub(super) fn of_legacy(document: &Value, group: &str, version: &str) -> Value {
    let mut resources: Vec<Value> = Vec::new();
    for entry in list(&document["resources"]) {
        let kind = json!({
            "group": member_or(entry, "group", group),
            "version": member_or(entry, "version", version),
            "kind": text(&entry["kind"]),
        });
        let (name, below) = text(&entry["name"]).split_once('/').unwrap_or((text(&entry["name"]), ""));
        let at = resources.iter().position(|resource| resource["resource"] == name);
        let at = at.unwrap_or_else(|| {
            let scope = if entry["namespaced"] == true { "Namespaced" } else { "Cluster" };
            resources.push(json!({ "resource": name, "scope": scope }));
            resources.len() - 1
        });
        let resource = &mut resources[at];
        if below.is_empty() {
            let members = [
                ("responseKind", kind),
                ("singularResource", json!(text(&entry["singularName"]))),
                ("verbs", json!(list(&entry["verbs"]))),
            ];
            members.into_iter().for_each(|(member, value)| resource[member] = value);
            for member in ["shortNames", "categories"] {
                if !list(&entry[member]).is_empty() {
                    resource[member] = entry[member].clone();
                }
            }
            continue;
        }
        let below = json!({ "subresource": below, "responseKind": kind, "verbs": list(&entry["verbs"]) });
        match &mut resource["subresources"] {
            Value::Array(all) => all.push(below),
            none => *none = json!([below]),
        }
    }
    Value::Array(resources)
}

fn member_or<'a>(entry: &'a Value, member: &str, otherwise: &'a str) -> &'a str {
    Some(text(&entry[member])).filter(|value| !value.is_empty()).unwrap_or(otherwise)
}

/// The hash that an index of OpenAPI v3 documents gives that of a group and version; `None` if there is no such document.
pub(super) fn openapi_hash(index: &Value, group: &str, version: &str) -> Option<String> {
    let paths: &Map<String, Value> = index["paths"].as_object()?;
    let url = text(&paths.get(&format!("apis/{group}/{version}"))?["serverRelativeURL"]);
    let query = url.split_once('?').map_or("", |(_, query)| query);
    Some(query.split('&').find_map(|pair| pair.strip_prefix("hash=")).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legacy_list_reads_as_aggregated_discovery() {
        let legacy = json!({ "kind": "APIResourceList", "groupVersion": "wardle.example.com/v1alpha1", "resources": [
            {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
                "verbs": ["create", "get"], "shortNames": ["fl"]},
            {"name": "flunders/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
                "kind": "Scale", "verbs": ["get"]},
            {"name": "fischers", "singularName": "fischer", "namespaced": false, "kind": "Fischer", "verbs": ["list"]},
        ]});
        let kind = |group: &str, version: &str, kind: &str| json!({ "group": group, "version": version, "kind": kind });
        let wanted = json!([
            {"resource": "flunders", "scope": "Namespaced", "singularResource": "flunder", "shortNames": ["fl"],
                "responseKind": kind("wardle.example.com", "v1alpha1", "Flunder"), "verbs": ["create", "get"],
                "subresources": [{"subresource": "scale", "responseKind": kind("autoscaling", "v1", "Scale"), "verbs": ["get"]}]},
            {"resource": "fischers", "scope": "Cluster", "singularResource": "fischer",
                "responseKind": kind("wardle.example.com", "v1alpha1", "Fischer"), "verbs": ["list"]},
        ]);
        assert_eq!(of_legacy(&legacy, "wardle.example.com", "v1alpha1"), wanted);
    }

    #[test]
    fn only_the_requested_version_of_an_aggregated_document_counts() {
        let document = json!({ "items": [{ "metadata": { "name": "g.io" }, "versions": [
            { "version": "v1", "resources": [{ "resource": "a" }] }, { "version": "v2" } ] }] });
        assert_eq!(of_aggregated(&document, "g.io", "v1"), Some(json!([{ "resource": "a" }])));
        assert_eq!(of_aggregated(&document, "g.io", "v2"), Some(json!([])));
        assert_eq!(of_aggregated(&document, "g.io", "v3"), None);
        assert_eq!(of_aggregated(&json!("nonsense"), "g.io", "v1"), None);
    }

    #[test]
    fn the_hash_of_an_openapi_document_is_read_from_its_url() {
        let index = json!({ "paths": {
            "apis/g.io/v1": { "serverRelativeURL": "/openapi/v3/apis/g.io/v1?hash=AB12" },
            "apis/g.io/v2": { "serverRelativeURL": "/openapi/v3/apis/g.io/v2" },
        }});
        assert_eq!(openapi_hash(&index, "g.io", "v1").as_deref(), Some("AB12"));
        assert_eq!(openapi_hash(&index, "g.io", "v2").as_deref(), Some(""));
        assert_eq!(openapi_hash(&index, "g.io", "v3"), None);
    }
}
