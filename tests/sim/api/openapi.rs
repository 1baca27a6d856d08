//! OpenAPI documents: complete, consistent with the served API, and cacheable as in Kubernetes.

use bytes::Bytes;
use flate2::read::GzDecoder;
use http_body_util::Full;
use kstore_api::kind::RESOURCES;
use kstore_api::version::Minor;
use kstore_tests::{Reply, Rest, Setup, simulate};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Read as _;

const V3_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

async fn get(rest: &Rest, path: &str, headers: &[(&str, &str)]) -> Reply {
    let mut request = http::Request::builder().uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    rest.send(request.body(Full::<Bytes>::default()).unwrap()).await
}

#[test]
fn openapi_documents_are_found_through_the_index_and_cached_for_a_year() {
    simulate(Setup::api_alone(), async |cluster| {
        let rest = cluster.rest();
        let index = get(&rest, "/openapi/v3", &[]).await;
        let tag = index.headers["etag"].to_str().unwrap().to_owned();
        assert_eq!(get(&rest, "/openapi/v3", &[("if-none-match", &tag)]).await.code, 304);
        let url = index.text("/paths/apis~1apps~1v1/serverRelativeURL");
        let apps = get(&rest, &url, &[("accept", "application/json")]).await;
        assert_eq!(apps.headers["cache-control"], "public, immutable");
        assert!(apps.headers.contains_key("expires"));
        assert!(apps.headers.get_all("vary").iter().any(|vary| vary == "Accept"));
        let moved = get(&rest, "/openapi/v3/apis/apps/v1?hash=0", &[]).await;
        assert_eq!((moved.code, moved.headers["location"].to_str().unwrap()), (301, url.as_str()));
        let protobuf = get(&rest, &url, &[("accept", V3_PROTOBUF)]).await;
        assert_eq!(protobuf.headers["content-type"], V3_PROTOBUF);
        assert_eq!(get(&rest, &url, &[("accept", "text/html")]).await.code, 406);
        assert_eq!(get(&rest, "/openapi/v3/apis/missing/v1", &[]).await.code, 404);
    });
}

/// The text of a compressed document; it must have an end.
fn unpacked(packed: &Reply) -> Vec<u8> {
    let mut text = Vec::new();
    GzDecoder::new(&packed.body[..]).read_to_end(&mut text).expect("a compressed document is whole");
    text
}

#[test]
fn compressed_documents_of_every_version_are_the_plain_ones() {
    for minor in Minor::SERVED {
        simulate(Setup::api_alone().kubernetes(minor), async |cluster| {
            // The server merges custom kinds into its own document.
            let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "carts.shop.example.com"}, "spec": {"group": "shop.example.com", "scope": "Namespaced",
                    "names": {"plural": "carts", "kind": "Cart"}, "versions": [{"name": "v1", "served": true, "storage": true,
                        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
                            "properties": {"size": {"type": "integer", "description": "x".repeat(40_000)}}}}}}}]}});
            cluster.create(definition).await;
            let rest = cluster.rest();
            let index = get(&rest, "/openapi/v3", &[]).await.json();
            let entries = index["paths"].as_object().unwrap().values();
            let documents = entries.map(|entry| entry["serverRelativeURL"].as_str().unwrap());
            let (mut compared, mut packed_sizes) = (0, 0);
            for path in documents.chain(["/openapi/v2", "/openapi/v3"]) {
                let protobuf = if path == "/openapi/v2" { V2_PROTOBUF } else { V3_PROTOBUF };
                for accept in ["application/json", protobuf] {
                    if path == "/openapi/v3" && accept == protobuf {
                        continue;
                    }
                    let plain = get(&rest, path, &[("accept", accept)]).await;
                    let packed = get(&rest, path, &[("accept", accept), ("accept-encoding", "gzip")]).await;
                    assert_eq!((plain.code, packed.code), (200, 200), "{minor} {path} {accept}");
                    let is_packed =
                        packed.headers.get("content-encoding").is_some_and(|coding| coding == "gzip");
                    assert!(plain.headers.get("content-encoding").is_none(), "{minor} {path} {accept}");
                    let text = if is_packed { unpacked(&packed) } else { packed.body.to_vec() };
                    assert!(
                        text == plain.body,
                        "{minor} {path} {accept}: {} of {}",
                        text.len(),
                        plain.body.len()
                    );
                    assert!(is_packed || path != "/openapi/v2", "{minor} {accept}: it is large");
                    compared += 1;
                    packed_sizes += usize::from(is_packed);
                }
            }
            assert!(
                compared > 40 && packed_sizes > 10,
                "{minor}: {packed_sizes} of {compared} are compressed"
            );
        });
    }
}

/// Requests the path of every list operation, so that every document is consistent with the served API.
#[test]
fn every_collection_that_is_documented_is_served_and_every_resource_is_documented() {
    simulate(Setup::api_alone(), async |cluster| {
        let rest = cluster.rest();
        let index = get(&rest, "/openapi/v3", &[]).await.json();
        let mut documented = BTreeSet::new();
        for (name, entry) in index["paths"].as_object().unwrap() {
            let document = get(&rest, entry["serverRelativeURL"].as_str().unwrap(), &[]).await.json();
            for (path, item) in document["paths"].as_object().unwrap() {
                let get_or_post = item.get("get").or(item.get("post"));
                if path.contains('{')
                    && !path.contains("{name}")
                    && !path.contains("/watch/")
                    && let Some(operation) = get_or_post
                {
                    documented.insert(operation["x-kubernetes-group-version-kind"].to_string());
                }
                if item["get"]["x-kubernetes-action"] != "list" {
                    continue;
                }
                documented.insert(item["get"]["x-kubernetes-group-version-kind"].to_string());
                let path = path.replace("{namespace}", "default");
                let listed = get(&rest, &format!("{path}?limit=1"), &[]).await;
                assert_eq!(listed.code, 200, "{path} of {name}");
            }
        }
        for resource in RESOURCES.iter().filter(|r| r.supports("list")) {
            let (group, version, kind) = (resource.group, resource.version, resource.kind);
            let gvk = serde_json::json!({"group": group, "kind": kind, "version": version});
            assert!(documented.contains(&gvk.to_string()), "{gvk}");
        }
    });
}

#[test]
fn the_v2_document_is_equal_in_json_and_protobuf() {
    simulate(Setup::api_alone(), async |cluster| {
        let rest = cluster.rest();
        let json = get(&rest, "/openapi/v2", &[]).await;
        let document = json.json();
        assert_eq!((document["swagger"].as_str(), json.code), (Some("2.0"), 200));
        let tag = json.headers["etag"].to_str().unwrap().to_owned();
        assert_eq!(get(&rest, "/openapi/v2", &[("if-none-match", &tag)]).await.code, 304);
        let protobuf = get(&rest, "/openapi/v2", &[("accept", V2_PROTOBUF)]).await;
        assert_eq!(protobuf.headers["content-type"], V2_PROTOBUF);
        // The name of every definition occurs unchanged.
        let text = String::from_utf8_lossy(&protobuf.body);
        for name in document["definitions"].as_object().unwrap().keys() {
            assert!(text.contains(name.as_str()), "{name}");
        }
        let operation = |path: &str, method: &str| document["paths"][path][method]["operationId"].clone();
        let pods = "/api/v1/namespaces/{namespace}/pods";
        assert_eq!(operation(pods, "delete"), Value::from("deleteCoreV1CollectionNamespacedPod"));
    });
}
