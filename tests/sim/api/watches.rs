//! Watches over REST, under a virtual clock: a watch with a timeout is read to its end.

use super::{config_map, configs, names, query};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use kstore_tests::{Cluster, Reply, Setup, simulate};
use serde_json::{Value, json};
use std::time::Duration;
use tower::ServiceExt as _;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn events(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.code, 200, "{}", reply.json());
    String::from_utf8_lossy(&reply.body).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// `TYPE name` of each event.
fn event_names(events: &[Value]) -> Vec<String> {
    let one = |event: &Value| {
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or("-");
        format!("{} {name}", event["type"].as_str().unwrap_or_default())
    };
    events.iter().map(one).collect()
}

async fn watch(cluster: &Cluster, path: &str, text: &str) -> Vec<Value> {
    events(&query(cluster, path, &format!("watch=1&timeoutSeconds=5&{text}")).await)
}

async fn create(cluster: &Cluster, name: &str, labels: Value) -> String {
    let made = cluster.rest().call("POST", CONFIG_MAPS, config_map(name, &labels)).await;
    assert_eq!(made.code, 201, "{}", made.json());
    made.text("/metadata/resourceVersion")
}

async fn label(cluster: &Cluster, name: &str, labels: Value) -> String {
    let patch = json!({"metadata": {"labels": labels}}).to_string();
    let path = format!("{CONFIG_MAPS}/{name}");
    let done = cluster.rest().call_as("PATCH", &path, "application/merge-patch+json", patch).await;
    assert_eq!(done.code, 200, "{}", done.json());
    done.text("/metadata/resourceVersion")
}

#[test]
fn objects_entering_a_selector_are_added_and_leaving_ones_deleted() {
    simulate(Setup::api_alone(), async |cluster| {
        let start = create(cluster, "a", json!({"side": "right"})).await;
        let entered = label(cluster, "a", json!({"side": "left", "step": "1"})).await;
        let changed = label(cluster, "a", json!({"step": "2"})).await;
        let left = label(cluster, "a", json!({"side": "right", "step": "3"})).await;
        let back = label(cluster, "a", json!({"side": "left"})).await;
        let gone = cluster.rest().call("DELETE", &format!("{CONFIG_MAPS}/a"), "").await;
        assert_eq!(gone.code, 200);
        // The events are equal from the watch cache and from the store's history.
        let text = format!("labelSelector=side%3Dleft&resourceVersion={start}");
        let seen = watch(cluster, CONFIG_MAPS, &text).await;
        let types: Vec<&str> = seen.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(types, ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]);
        let version = |at: usize| seen[at]["object"]["metadata"]["resourceVersion"].as_str().unwrap();
        assert_eq!((version(0), version(1), version(2), version(3)), (&*entered, &*changed, &*left, &*back));
        // The previous state, at the revision of the event.
        assert_eq!(seen[2]["object"]["metadata"]["labels"], json!({"side": "left", "step": "2"}));
        assert!(version(4).parse::<i64>().unwrap() > back.parse().unwrap());
        assert_eq!(seen[4]["object"]["metadata"]["labels"]["side"], "left");
    });
}

#[test]
fn a_watch_without_a_revision_begins_with_the_current_objects() {
    simulate(Setup::api_alone(), async |cluster| {
        create(cluster, "a", json!({})).await;
        let last = create(cluster, "b", json!({})).await;
        for text in ["", "resourceVersion=0", "resourceVersion="] {
            assert_eq!(
                event_names(&watch(cluster, CONFIG_MAPS, text).await),
                ["ADDED a", "ADDED b"],
                "{text}"
            );
        }
        assert_eq!(
            event_names(&watch(cluster, CONFIG_MAPS, &format!("resourceVersion={last}")).await),
            Vec::<String>::new()
        );
        let none = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
        assert_eq!(event_names(&watch(cluster, CONFIG_MAPS, none).await), Vec::<String>::new());
    });
}

#[test]
fn the_end_of_initial_events_is_marked_once_with_bookmarks() {
    simulate(Setup::api_alone(), async |cluster| {
        create(cluster, "a", json!({})).await;
        let stream = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        assert_eq!(event_names(&watch(cluster, CONFIG_MAPS, stream).await), ["ADDED a"]);
        for text in [format!("{stream}&"), String::new()] {
            let seen = watch(cluster, CONFIG_MAPS, &format!("{text}allowWatchBookmarks=true")).await;
            let mark = &seen[1];
            assert_eq!(
                (&mark["type"], &mark["object"]["kind"], &mark["object"]["apiVersion"]),
                (&json!("BOOKMARK"), &json!("ConfigMap"), &json!("v1"))
            );
            let metadata = &mark["object"]["metadata"];
            assert_eq!(metadata["annotations"], json!({"k8s.io/initial-events-end": "true"}));
            assert_eq!(
                metadata["resourceVersion"],
                configs(cluster, "").await["metadata"]["resourceVersion"]
            );
            // Later bookmarks have no mark: before the timeout and at it.
            assert!(
                seen.len() > 2
                    && seen[2..].iter().all(|event| {
                        event["type"] == "BOOKMARK" && event["object"]["metadata"]["annotations"].is_null()
                    })
            );
        }
    });
}

#[test]
fn initial_events_wait_for_the_requested_minimum_revision() {
    simulate(Setup::api_alone(), async |cluster| {
        let now: i64 = create(cluster, "a", json!({})).await.parse().unwrap();
        let text = format!(
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1&resourceVersion={}",
            now + 1
        );
        let (seen, _) = tokio::join!(watch(cluster, CONFIG_MAPS, &text), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            create(cluster, "b", json!({})).await
        });
        assert_eq!(event_names(&seen)[..3], ["ADDED a", "ADDED b", "BOOKMARK -"]);
        assert_eq!(seen[2]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    });
}

#[test]
fn bookmarks_report_the_revision_of_a_quiet_watch() {
    simulate(Setup::api_alone(), async |cluster| {
        let start = create(cluster, "a", json!({})).await;
        let text = format!("watch=1&timeoutSeconds=150&allowWatchBookmarks=true&resourceVersion={start}");
        let (reply, last) = tokio::join!(query(cluster, PODS, &text), async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            create(cluster, "b", json!({})).await
        });
        let seen = events(&reply);
        assert_eq!(
            event_names(&seen),
            ["BOOKMARK -"; 4],
            "one a minute, one before the timeout and one at it"
        );
        assert!(seen.iter().all(|event| event["object"]["metadata"]["resourceVersion"] == json!(last)));
        assert_eq!(
            event_names(&watch(cluster, PODS, &format!("resourceVersion={start}")).await),
            Vec::<String>::new()
        );
    });
}

#[test]
fn a_watch_from_a_compacted_revision_gets_an_error_event() {
    simulate(Setup::api_alone(), async |cluster| {
        let start = create(cluster, "a", json!({})).await;
        for _ in 0..3 {
            label(cluster, "a", json!({"x": "1"})).await;
            label(cluster, "a", json!({"x": "2"})).await;
        }
        cluster.store().compact(cluster.store().revision()).await.unwrap();
        let another = cluster.another_apiserver().await;
        // A new apiserver has no watch cache beyond the store's history.
        let seen = kstore_tests::Rest::new(another)
            .call("GET", &format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}"), "")
            .await;
        let seen = events(&seen);
        assert_eq!(seen.len(), 1, "{seen:?}");
        let status = &seen[0]["object"];
        assert_eq!(
            (&seen[0]["type"], &status["kind"], &status["apiVersion"]),
            (&json!("ERROR"), &json!("Status"), &json!("v1"))
        );
        assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")));
        assert!(
            status["message"].as_str().unwrap().starts_with(&format!("too old resource version: {start} ("))
        );
    });
}

#[test]
fn a_node_watches_its_own_pods_as_they_are_assigned_and_removed() {
    simulate(Setup::api_alone(), async |cluster| {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let (mine, others, _) = tokio::join!(
            watch(cluster, PODS, "fieldSelector=spec.nodeName%3Dn1"),
            watch(cluster, PODS, "fieldSelector=spec.nodeName%3Dn2"),
            async {
                assert_eq!(cluster.rest().call("POST", PODS, pod.to_string()).await.code, 201);
                let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}});
                assert_eq!(
                    cluster.rest().call("POST", &format!("{PODS}/p/binding"), binding.to_string()).await.code,
                    201
                );
                let delete = r#"{"gracePeriodSeconds":0}"#;
                assert_eq!(cluster.rest().call("DELETE", &format!("{PODS}/p"), delete).await.code, 200);
            }
        );
        let types = event_names(&mine);
        assert_eq!((types[0].as_str(), types.last().map(String::as_str)), ("ADDED p", Some("DELETED p")));
        assert_eq!(others, Vec::<Value>::new());
    });
}

#[test]
fn a_single_name_can_be_watched_and_listed() {
    simulate(Setup::api_alone(), async |cluster| {
        create(cluster, "a", json!({})).await;
        create(cluster, "b", json!({})).await;
        let only = "fieldSelector=metadata.name%3Db";
        assert_eq!(names(&configs(cluster, only).await), ["b"]);
        assert_eq!(event_names(&watch(cluster, CONFIG_MAPS, only).await), ["ADDED b"]);
        let path = "/api/v1/watch/namespaces/default/configmaps/a";
        assert_eq!(event_names(&watch(cluster, path, "").await), ["ADDED a"], "the deprecated form");
    });
}

#[test]
fn a_slow_watcher_is_disconnected_without_delaying_others() {
    simulate(Setup::api_alone(), async |cluster| {
        let start = create(cluster, "a", json!({})).await;
        let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}");
        let request = http::Request::get(path).body(Full::<Bytes>::default()).unwrap();
        let response = cluster.in_process().oneshot(request).await.unwrap();
        for step in 0..24 {
            let patch = json!({"data": {"n": format!("{step}{}", "x".repeat(1_000_000))}}).to_string();
            let path = format!("{CONFIG_MAPS}/a");
            let done = cluster.rest().call_as("PATCH", &path, "application/merge-patch+json", patch).await;
            assert_eq!(done.code, 200);
        }
        // It reads again after its buffer has overflowed: the stream ends cleanly, and the client resumes
        // from its last event.
        let body = tokio::time::timeout(Duration::from_secs(1), response.into_body().collect()).await;
        assert_eq!(body.unwrap().unwrap().to_bytes().len(), 0);
        let seen = watch(cluster, CONFIG_MAPS, &format!("resourceVersion={start}")).await;
        assert_eq!(seen.len(), 24, "a client that reads gets all events, from the history");
    });
}
