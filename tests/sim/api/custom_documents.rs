//! Discovery and OpenAPI with many custom kinds: a change of one definition changes only the documents of its
//! group.

use kstore_tests::{Cluster, Reply, Setup, simulate};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Number of kinds, each in its own group.
const KINDS: usize = 100;
/// Number of properties in a schema, for a definition of about 36 kB, as those of large operators.
const FIELDS: usize = 128;

fn definition(index: usize, fields: usize) -> Value {
    let field = |field: usize| {
        let description = format!(
            "Field {field} of kind {index} says how the thing is to be, at some length, as descriptions do: {}",
            "word ".repeat(16)
        );
        let own = match field % 4 {
            0 => json!({"type": "string", "description": description, "maxLength": 63}),
            1 => json!({"type": "integer", "description": description, "default": 1, "minimum": 0}),
            2 => {
                json!({"type": "array", "description": description, "items": {"type": "string"}, "x-kubernetes-list-type": "set", "maxItems": 8})
            }
            _ => {
                json!({"description": description, "x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})
            }
        };
        (format!("field{field}"), own)
    };
    let properties: serde_json::Map<String, Value> = (0..fields).map(field).collect();
    let group = format!("g{index}.example.com");
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "description": "What is wanted.", "properties": properties},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}})
}

async fn get(cluster: &Cluster, path: &str) -> Reply {
    let reply = cluster.rest().call("GET", path, "").await;
    assert_eq!(reply.code, 200, "{path}");
    reply
}

fn tag(reply: &Reply) -> String {
    reply.headers["etag"].to_str().unwrap().to_owned()
}

async fn url(cluster: &Cluster, index: usize) -> String {
    let documents = get(cluster, "/openapi/v3").await.json();
    documents["paths"][format!("apis/g{index}.example.com/v1")]["serverRelativeURL"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Runs `work` and prints how long it took in real time, for information only.
#[expect(clippy::disallowed_methods, reason = "a measurement of the machine, which decides nothing")]
async fn timed<T>(what: &str, work: impl Future<Output = T>) -> T {
    let begin = Instant::now();
    let done = work.await;
    let took: Duration = begin.elapsed();
    eprintln!("{what}: {took:?}");
    done
}

async fn merge(cluster: &Cluster, path: &str, patch: Value) {
    let done = cluster.rest().call_as("PATCH", path, "application/merge-patch+json", patch.to_string()).await;
    assert_eq!(done.code, 200, "{}", done.json());
}

#[test]
fn changing_one_definition_leaves_the_documents_of_others_unchanged() {
    simulate(Setup::api_alone(), async |cluster| {
        let size = definition(0, FIELDS).to_string().len();
        assert!((30_000..45_000).contains(&size), "{size}");
        timed("100 definitions of 36 kB", async {
            for index in 0..KINDS {
                let body = definition(index, FIELDS).to_string();
                assert_eq!(cluster.rest().call("POST", DEFINITIONS, body).await.code, 201);
            }
        })
        .await;
        let swagger = timed("v2, first", get(cluster, "/openapi/v2")).await;
        assert_eq!(swagger.headers["cache-control"], "no-cache, private");
        assert_eq!(tag(&timed("v2, again", get(cluster, "/openapi/v2")).await), tag(&swagger));
        let index = timed("v3, index", url(cluster, 7)).await;
        let first = timed("v3 of one group and version, first", get(cluster, &index)).await;
        timed("v3 of one group and version, again", get(cluster, &index)).await;
        let other = url(cluster, 8).await;
        timed("discovery, first", get(cluster, "/apis")).await;

        let changed = format!("{DEFINITIONS}/things.g7.example.com");
        merge(cluster, &changed, json!({"metadata": {"labels": {"a": "b"}}})).await;
        assert_eq!(url(cluster, 7).await, index, "a label is not documented");
        assert_eq!(tag(&get(cluster, "/openapi/v2").await), tag(&swagger));

        let mut next = definition(7, FIELDS + 1);
        next["metadata"]["resourceVersion"] =
            get(cluster, &changed).await.json()["metadata"]["resourceVersion"].clone();
        assert_eq!(cluster.rest().call("PUT", &changed, next.to_string()).await.code, 200);
        let later = timed("v2, after one change", get(cluster, "/openapi/v2")).await;
        assert_ne!(tag(&later), tag(&swagger));
        assert!(later.body.len() > swagger.body.len());
        let definitions = later.json()["definitions"].clone();
        assert!(
            definitions["com.example.g7.v1.Thing"]["properties"]["spec"]["properties"]["field128"]
                .is_object()
        );
        assert!(
            definitions["com.example.g8.v1.Thing"]["properties"]["spec"]["properties"]["field128"].is_null()
        );
        let moved = url(cluster, 7).await;
        assert_ne!(moved, index, "the schema is documented");
        assert_eq!(url(cluster, 8).await, other, "another group is not touched");
        assert_ne!(tag(&get(cluster, &moved).await), tag(&first));
        let old = cluster.rest().call("GET", &index, "").await;
        assert_eq!((old.code, old.headers["location"].to_str().unwrap()), (301, moved.as_str()));
        timed("discovery, after one change", get(cluster, "/apis/g7.example.com/v1")).await;
    });
}

#[test]
fn discovery_and_openapi_drop_a_kind_with_its_definition() {
    simulate(Setup::api_alone(), async |cluster| {
        assert_eq!(cluster.rest().call("POST", DEFINITIONS, definition(1, 2).to_string()).await.code, 201);
        let document = url(cluster, 1).await;
        let paths = ["/apis/g1.example.com", "/apis/g1.example.com/v1", document.as_str()];
        for path in paths {
            get(cluster, path).await;
        }
        let index = get(cluster, "/openapi/v3").await.json();
        assert!(
            index["paths"].get("apis/g1.example.com").is_none(),
            "the group alone has no document, as in Kubernetes"
        );
        let swagger = get(cluster, "/openapi/v2").await.json();
        let operation = &swagger["paths"]["/apis/g1.example.com/v1/namespaces/{namespace}/things"]["post"];
        assert_eq!(operation["operationId"], "createG1ExampleComV1NamespacedThing");
        let deleted =
            cluster.rest().call("DELETE", &format!("{DEFINITIONS}/things.g1.example.com"), "").await;
        assert_eq!(deleted.code, 200);
        let gone = async || cluster.rest().call("GET", "/apis/g1.example.com", "").await.code == 404;
        cluster.wait_until("the group is removed", gone).await;
        for path in paths {
            assert_eq!(cluster.rest().call("GET", path, "").await.code, 404, "{path}");
        }
        let swagger = get(cluster, "/openapi/v2").await.json();
        assert!(swagger["definitions"].get("com.example.g1.v1.Thing").is_none());
    });
}
