//! Field selectors of custom kinds with several versions: each version's selectable fields, and their values
//! in that version.

use super::query;
use super::versions::{DEFINITIONS, V1, V2, call, convert, definition};
use kstore_client::{DeleteParams, Gvr, ListParams, WatchParams};
use kstore_informer::{Builder, Key};
use kstore_tests::{Cluster, Setup, simulate};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A definition in which `v1` is selectable by `hostPort`, and `v2` by `host` and `port`; `v1` is stored.
fn selectable() -> Value {
    let mut definition = definition();
    for (version, fields) in [(0, &[".hostPort"][..]), (1, &[".host", ".port"])] {
        let fields: Vec<Value> = fields.iter().map(|path| json!({"jsonPath": path})).collect();
        definition["spec"]["versions"][version]["selectableFields"] = json!(fields);
    }
    definition
}

async fn define(cluster: &Cluster, definition: &Value) -> Value {
    cluster.webhooks().serve("/convert", convert);
    let made = call(cluster, "POST", DEFINITIONS, definition).await;
    assert_eq!(made.code, 201, "{}", made.json());
    made.json()
}

/// Creates an object, or changes its address.
async fn put(cluster: &Cluster, name: &str, host_port: &str) {
    let path = format!("{V1}/{name}");
    let mut door = json!({"apiVersion": "net.test/v1", "kind": "Door", "metadata": {"name": name}, "hostPort": host_port});
    let stored = call(cluster, "GET", &path, &Value::Null).await;
    let put = match stored.code {
        404 => call(cluster, "POST", V1, &door).await,
        _ => {
            door["metadata"] = stored.json()["metadata"].clone();
            call(cluster, "PUT", &path, &door).await
        }
    };
    assert!(put.code < 300, "{}", put.json());
}

async fn delete(cluster: &Cluster, name: &str) {
    assert_eq!(call(cluster, "DELETE", &format!("{V1}/{name}"), &Value::Null).await.code, 200);
}

async fn list(cluster: &Cluster, path: &str, options: &str) -> Value {
    let reply = query(cluster, path, options).await;
    assert_eq!(reply.code, 200, "{}", reply.json());
    reply.json()
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

/// Type, name and version of each watch event.
fn events(body: &[u8]) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let read = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        let object = &event["object"];
        (text(&event["type"]), text(&object["metadata"]["name"]), text(&object["apiVersion"]))
    };
    String::from_utf8_lossy(body).lines().map(read).collect()
}

#[test]
fn lists_filter_by_fields_of_the_requested_version() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster, &selectable()).await;
        for (name, at) in [("a", "here:80"), ("b", "there:80"), ("c", "here:81"), ("d", "here:80")] {
            put(cluster, name, at).await;
        }
        let by_host = list(cluster, V2, "fieldSelector=host=here").await;
        assert_eq!(names(&by_host), ["a", "c", "d"]);
        assert_eq!(by_host["items"][0]["port"], "80");
        assert_eq!(names(&list(cluster, V2, "fieldSelector=host=here,port!=80").await), ["c"]);
        assert_eq!(names(&list(cluster, V2, "fieldSelector=host=here,metadata.name=d").await), ["d"]);
        assert_eq!(names(&list(cluster, V1, "fieldSelector=hostPort=there:80").await), ["b"]);
        for (path, selector) in [(V1, "host=here"), (V2, "hostPort=here:80")] {
            let refused = query(cluster, path, &format!("fieldSelector={selector}")).await;
            let field = selector.split('=').next().unwrap();
            assert_eq!(
                (refused.code, refused.text("/message")),
                (400, format!("field label not supported: {field}"))
            );
        }
        // Pages have the full limit, however many unselected objects are between the selected ones.
        let first = list(cluster, V2, "fieldSelector=host=here&limit=2").await;
        assert_eq!(names(&first), ["a", "c"]);
        let token = first["metadata"]["continue"].as_str().unwrap();
        let last = list(cluster, V2, &format!("fieldSelector=host=here&limit=2&continue={token}")).await;
        assert_eq!((names(&last), &last["metadata"]["continue"]), (vec!["d"], &json!("")));
        assert_eq!(last["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    });
}

#[test]
fn a_collection_deletion_filters_by_fields_of_the_requested_version() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster, &selectable()).await;
        for (name, at) in [("a", "here:80"), ("b", "there:80"), ("c", "here:81")] {
            put(cluster, name, at).await;
        }
        let doors = cluster.client().dynamic(Gvr::new("net.test", "v2", "doors"));
        let here = ListParams::default().fields("host=here");
        assert_eq!(doors.list("default", &here).await.unwrap().0.len(), 2, "over gRPC");
        let deleted = call(cluster, "DELETE", &format!("{V2}?fieldSelector=host%3Dhere"), &Value::Null).await;
        assert_eq!(deleted.code, 200, "{}", deleted.json());
        assert_eq!(names(&list(cluster, V1, "").await), ["b"]);
        let there = ListParams::default().fields("host=there");
        doors.delete_collection("default", &there, &DeleteParams::default()).await.unwrap();
        assert!(names(&list(cluster, V1, "").await).is_empty());
    });
}

/// Changes that move objects into the selection `host=here` and out of it.
async fn move_doors(cluster: &Cluster) {
    tokio::time::sleep(Duration::from_secs(1)).await;
    for (name, at) in [("b", "there:2"), ("a", "here:2"), ("a", "there:2"), ("c", "here:1"), ("a", "here:3")]
    {
        put(cluster, name, at).await;
    }
    delete(cluster, "b").await;
    delete(cluster, "a").await;
}

#[test]
fn a_watch_sees_objects_enter_and_leave_the_fields_of_its_version() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster, &selectable()).await;
        put(cluster, "a", "here:1").await;
        put(cluster, "b", "there:1").await;
        let watch = query(cluster, V2, "watch=1&timeoutSeconds=5&fieldSelector=host=here");
        let (watched, ()) = tokio::join!(watch, move_doors(cluster));
        let seen = events(&watched.body);
        assert!(seen.iter().all(|(_, _, version)| version == "net.test/v2"), "{seen:?}");
        let seen: Vec<(&str, &str)> =
            seen.iter().map(|(event, name, _)| (event.as_str(), name.as_str())).collect();
        let expected = [
            ("ADDED", "a"),
            ("MODIFIED", "a"),
            ("DELETED", "a"),
            ("ADDED", "c"),
            ("ADDED", "a"),
            ("DELETED", "a"),
        ];
        assert_eq!(seen, expected);
    });
}

#[test]
fn an_informer_filters_by_fields_of_its_version() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster, &selectable()).await;
        put(cluster, "a", "here:1").await;
        put(cluster, "b", "there:1").await;
        let stop = CancellationToken::new();
        let doors = cluster.client().dynamic(Gvr::new("net.test", "v2", "doors"));
        let here = WatchParams::default().ns("default").fields("host=here");
        let informer = Builder::new(doors.source(here)).spawn(&stop);
        informer.synced().await.unwrap();
        let held = || {
            let mut names: Vec<String> =
                informer.list().iter().map(|door| door.value()["metadata"]["name"].to_string()).collect();
            names.sort();
            names
        };
        assert_eq!(held(), ["\"a\""]);
        move_doors(cluster).await;
        let key = Key::new("default", "a");
        let gone = informer.until(&key, |door| door.is_none());
        tokio::time::timeout(Duration::from_secs(60), gone).await.unwrap().unwrap();
        assert_eq!(held(), ["\"c\""]);
        stop.cancel();
    });
}

#[test]
fn a_watch_by_declared_fields_ends_when_its_definition_changes() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut definition = selectable();
        let webhook = definition["spec"].as_object_mut().unwrap().remove("conversion").unwrap();
        let made = define(cluster, &definition).await;
        put(cluster, "a", "here:1").await;
        let watch = async |options: &str| {
            let begun = tokio::time::Instant::now();
            let watched = query(cluster, V1, &format!("watch=1&timeoutSeconds=60&{options}")).await;
            (events(&watched.body).len(), begun.elapsed() < Duration::from_secs(30))
        };
        let change = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut changed = made.clone();
            changed["spec"]["conversion"] = webhook;
            let path = format!("{DEFINITIONS}/doors.net.test");
            let put = call(cluster, "PUT", &path, &changed).await;
            assert_eq!(put.code, 200, "{}", put.json());
        };
        let by_field = watch("fieldSelector=hostPort=here:1");
        let by_name = watch("fieldSelector=metadata.name=a");
        let (by_field, by_name, ()) = tokio::join!(by_field, by_name, change);
        assert_eq!(by_field, (1, true), "its field may have other values now");
        assert_eq!(by_name, (1, false), "names are no declared fields");
        assert_eq!(names(&list(cluster, V2, "fieldSelector=host=here").await), ["a"]);
    });
}
