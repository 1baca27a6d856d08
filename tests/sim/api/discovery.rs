//! Discovery: the legacy and the aggregated form are equal, in every encoding.

use bytes::Bytes;
use http_body_util::Full;
use kstore_registry::user::UserInfo;
use kstore_tests::{Reply, Rest, Setup, simulate};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn get(rest: &Rest, path: &str, accept: &str) -> Reply {
    let request = http::Request::builder().uri(path).header("accept", accept);
    rest.send(request.body(Full::<Bytes>::default()).unwrap()).await
}

/// Flattens the aggregated form: `group/version/resource[/subresource]` to kind and verbs.
fn aggregated(list: &Value, out: &mut BTreeMap<String, (String, Value)>) {
    for group in list["items"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            assert_eq!(version["freshness"], "Current");
            let prefix = format!(
                "{}/{}",
                group["metadata"]["name"].as_str().unwrap_or_default(),
                version["version"].as_str().unwrap()
            );
            for resource in version["resources"].as_array().unwrap() {
                let name = format!("{prefix}/{}", resource["resource"].as_str().unwrap());
                let kind = |entry: &Value| entry["responseKind"]["kind"].as_str().unwrap().to_owned();
                for sub in resource["subresources"].as_array().into_iter().flatten() {
                    let name = format!("{name}/{}", sub["subresource"].as_str().unwrap());
                    out.insert(name, (kind(sub), sub["verbs"].clone()));
                }
                out.insert(name, (kind(resource), resource["verbs"].clone()));
            }
        }
    }
}

async fn legacy(rest: &Rest) -> BTreeMap<String, (String, Value)> {
    let groups = get(rest, "/apis", "application/json").await.json();
    let mut roots = vec![(String::new(), "v1".to_owned(), "/api/v1".to_owned())];
    for group in groups["groups"].as_array().unwrap() {
        assert_eq!(group["preferredVersion"], group["versions"][0]);
        for version in group["versions"].as_array().unwrap() {
            let gv = version["groupVersion"].as_str().unwrap();
            let name = group["name"].as_str().unwrap().to_owned();
            roots.push((name, version["version"].as_str().unwrap().to_owned(), format!("/apis/{gv}")));
        }
    }
    let mut out = BTreeMap::new();
    for (group, version, path) in roots {
        let list = get(rest, &path, "application/json").await.json();
        for resource in list["resources"].as_array().unwrap() {
            let name = format!("{group}/{version}/{}", resource["name"].as_str().unwrap());
            out.insert(name, (resource["kind"].as_str().unwrap().to_owned(), resource["verbs"].clone()));
        }
    }
    out
}

#[test]
fn legacy_and_aggregated_discovery_are_equal() {
    simulate(Setup::api_alone(), async |cluster| {
        let rest = cluster.rest();
        let mut all = BTreeMap::new();
        for path in ["/api", "/apis"] {
            let reply = get(&rest, path, &format!("{AGGREGATED},application/json")).await;
            assert_eq!((reply.headers["content-type"].to_str().unwrap(), reply.code), (AGGREGATED, 200));
            assert_eq!(reply.headers["vary"], "Accept");
            aggregated(&reply.json(), &mut all);
        }
        assert_eq!(all, legacy(&rest).await);
        assert_eq!(all["/v1/pods/eviction"].0, "Eviction");
    });
}

#[test]
fn groups_are_listed_by_priority() {
    simulate(Setup::api_alone(), async |cluster| {
        let list = get(&cluster.rest(), "/apis", AGGREGATED).await.json();
        let items = list["items"].as_array().unwrap();
        let names: Vec<&str> = items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect();
        let wanted = [
            "apiregistration.k8s.io",
            "apps",
            "events.k8s.io",
            "authentication.k8s.io",
            "authorization.k8s.io",
            "autoscaling",
            "batch",
            "certificates.k8s.io",
            "networking.k8s.io",
            "policy",
            "rbac.authorization.k8s.io",
            "storage.k8s.io",
            "admissionregistration.k8s.io",
            "apiextensions.k8s.io",
            "scheduling.k8s.io",
            "coordination.k8s.io",
            "node.k8s.io",
            "discovery.k8s.io",
            "resource.k8s.io",
            "flowcontrol.apiserver.k8s.io",
            "storagemigration.k8s.io",
        ];
        let served: Vec<&str> = wanted.into_iter().filter(|name| names.contains(name)).collect();
        assert_eq!(names, served);
        let autoscaling = items.iter().find(|item| item["metadata"]["name"] == "autoscaling").unwrap();
        let versions = autoscaling["versions"].as_array().unwrap();
        assert_eq!(versions.iter().map(|v| &v["version"]).collect::<Vec<_>>(), ["v2", "v1"]);
    });
}

#[test]
fn discovery_supports_etags_and_other_encodings() {
    simulate(Setup::api_alone(), async |cluster| {
        let rest = cluster.rest();
        let tag = get(&rest, "/apis", AGGREGATED).await.headers["etag"].clone();
        let request = http::Request::builder().uri("/apis").header("accept", AGGREGATED);
        let request = request.header("if-none-match", tag).body(Full::<Bytes>::default()).unwrap();
        assert_eq!(rest.send(request).await.code, 304);
        let json = get(&rest, "/apis/apps/v1", "application/json").await.json();
        assert_eq!(json["kind"], "APIResourceList");
        let yaml = get(&rest, "/apis/apps/v1", "application/yaml").await;
        assert!(yaml.body.starts_with(b"apiVersion: v1\n"), "{:?}", yaml.body);
        let protobuf = get(&rest, "/apis", "application/vnd.kubernetes.protobuf,application/json").await;
        assert!(protobuf.body.starts_with(b"k8s\0"));
        assert_eq!(protobuf.headers["content-type"], "application/vnd.kubernetes.protobuf");
        let refused = get(&rest, "/apis", "text/html").await;
        assert_eq!((refused.code, refused.json()["reason"].clone()), (406, json!("NotAcceptable")));
    });
}

#[test]
fn definitions_are_listed_to_users_with_permission() {
    simulate(Setup::api_alone(), async |cluster| {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let list = get(&cluster.rest(), path, "application/json").await.json();
        assert_eq!((&list["kind"], &list["items"]), (&"CustomResourceDefinitionList".into(), &json!([])));
        let jane = cluster.rest_as(UserInfo::new("jane", ["system:authenticated"]));
        let refused = jane.call("GET", path, "").await;
        assert_eq!(refused.code, 403);
        assert!(refused.text("/message").contains("cannot list resource \"customresourcedefinitions\""));
    });
}
