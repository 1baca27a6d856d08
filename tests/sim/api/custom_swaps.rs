//! The table of served kinds is replaced as a whole whenever a definition changes. Here it is replaced
//! repeatedly under many writers and watchers of one kind: every write is acknowledged, and every watcher
//! receives each write once, in order, in the form of the schema that was current at its revision.

use super::query;
use kstore_tests::{Cluster, Setup, simulate};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const TOKENS: &str = "/apis/swap.example.com/v1/namespaces/default/tokens";
const WRITERS: usize = 64;
const WATCHERS: usize = 64;
/// Number of objects that each writer creates.
const CREATES: usize = 6;
/// Number of changes of the definition, each with another definition that is created and deleted.
const SWAPS: usize = 24;

fn definition(plural: &str, kind: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.swap.example.com")},
        "spec": {"group": "swap.example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"spec": {"type": "object", "properties": {"writer": {"type": "integer"}}}}}}}]}})
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Creates objects one after the other; returns each one's revision by name.
async fn write(cluster: &Cluster, writer: usize) -> Vec<(String, u64)> {
    let mut written = Vec::new();
    for index in 0..CREATES {
        let name = format!("w{writer}-{index}");
        let object = json!({"apiVersion": "swap.example.com/v1", "kind": "Token", "metadata": {"name": name},
            "spec": {"writer": writer}});
        let made = cluster.rest().call("POST", TOKENS, object.to_string()).await;
        assert_eq!(made.code, 201, "{}", made.json());
        written.push((name, revision(&made.json())));
    }
    written
}

/// Adds one field with a default to the schema at a time, while other kinds are created and deleted. Returns
/// the revisions of the changes.
async fn swap(cluster: &Cluster) -> Vec<u64> {
    let mut revisions = Vec::new();
    for index in 0..SWAPS {
        let field = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        let value = json!({"type": "integer", "default": index});
        let patch = json!([{"op": "add", "path": format!("{field}/d{index}"), "value": value}]);
        let path = format!("{DEFINITIONS}/tokens.swap.example.com");
        let form = "application/json-patch+json";
        let changed = cluster.rest().call_as("PATCH", &path, form, patch.to_string()).await;
        assert_eq!(changed.code, 200, "{}", changed.json());
        revisions.push(revision(&changed.json()));
        let other = definition(&format!("others{index}"), &format!("Other{index}")).to_string();
        assert_eq!(cluster.rest().call("POST", DEFINITIONS, other).await.code, 201);
        let other = format!("{DEFINITIONS}/others{index}.swap.example.com");
        assert_eq!(cluster.rest().call("DELETE", &other, "").await.code, 200);
    }
    revisions
}

#[test]
fn definition_changes_under_load_neither_lose_nor_repeat_watch_events() {
    simulate(Setup::api_alone(), async |cluster| {
        let made = cluster.rest().call("POST", DEFINITIONS, definition("tokens", "Token").to_string()).await;
        assert_eq!(made.code, 201, "{}", made.json());
        let text = format!("watch=1&timeoutSeconds=30&resourceVersion={}", revision(&made.json()));
        let watching = futures::future::join_all((0..WATCHERS).map(|_| query(cluster, TOKENS, &text)));
        let writing = futures::future::join_all((0..WRITERS).map(|writer| write(cluster, writer)));
        let (watched, written, changes) = tokio::join!(watching, writing, swap(cluster));
        let written: BTreeMap<String, u64> = written.into_iter().flatten().collect();
        assert_eq!(written.len(), WRITERS * CREATES);
        let (first, last) = (changes[0], changes[SWAPS - 1]);
        assert!(
            written.values().any(|at| (first..last).contains(at)),
            "the kinds changed while objects were written: {changes:?}"
        );
        let mut expected: Vec<(u64, String)> = written.into_iter().map(|(name, at)| (at, name)).collect();
        expected.sort_unstable();
        for answer in &watched {
            let mut heard = Vec::new();
            for line in String::from_utf8_lossy(&answer.body).lines() {
                let event: Value = serde_json::from_str(line).unwrap();
                assert_eq!(event["type"], "ADDED", "{event}");
                let (object, at) = (&event["object"], revision(&event["object"]));
                for (index, _) in changes.iter().enumerate().filter(|(_, change)| **change < at) {
                    assert_eq!(object["spec"][format!("d{index}")], index, "{object} by {changes:?}");
                }
                heard.push((at, object["metadata"]["name"].as_str().unwrap().to_owned()));
            }
            assert_eq!(heard, expected, "each write once, in the order of revisions");
        }
    });
}
