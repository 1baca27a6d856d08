//! Deletion as clients observe it: grace periods, finalizers, propagation, preconditions and answers, also of
//! collections.

use super::network::of_image;
use super::{CONFIG_MAPS, DEPLOYMENTS, PODS, case, run, send, warnings};
use kstore_client::{DeleteParams, ListParams};
use kstore_tests::{Cluster, Reply, Rest, Setup, Storage, manifests, simulate};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::task::JoinSet;

async fn running_pod(cluster: &Cluster, name: &str) -> Value {
    cluster.create(manifests::pod(name, json!({"nodeName": "n", "terminationGracePeriodSeconds": 30}))).await;
    let status = json!({"status": {"phase": "Running"}});
    send(cluster, "PATCH", &format!("{PODS}/{name}/status"), &status).await.json()
}

#[test]
fn a_deletion_answers_with_the_object_or_a_status_with_its_uid() {
    simulate(Setup::api_alone(), async |cluster| {
        let map = cluster.create(manifests::config_map("a", "1")).await;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}});
        cluster.create(account).await;
        cluster.create(manifests::deployment("web", 0)).await;
        let held = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["x/y"]}});
        cluster.create(held).await;
        let accounts = "/api/v1/namespaces/default/serviceaccounts/s";
        run(cluster, [
            case("a kind that is not given back", ("DELETE", &format!("{CONFIG_MAPS}/a")), Value::Null, 200,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Success",
                    "details": {"name": "a", "kind": "configmaps", "group": null, "uid": map["metadata"]["uid"]}})),
            case("a deleted account", ("DELETE", accounts), Value::Null, 200, json!({"kind": "ServiceAccount"})),
            case("a group", ("DELETE", &format!("{DEPLOYMENTS}/web")), Value::Null, 200,
                json!({"kind": "Status", "details": {"kind": "deployments", "group": "apps"}})),
            case("held by a finalizer", ("DELETE", &format!("{CONFIG_MAPS}/held")), Value::Null, 200,
                json!({"kind": "ConfigMap", "metadata": {"deletionGracePeriodSeconds": 0, "generation": null}})),
            case("202 if the caller asked for cascading", ("DELETE", &format!("{CONFIG_MAPS}/held?orphanDependents=false")), Value::Null, 202,
                json!({"kind": "ConfigMap"})),
            case("gone", ("DELETE", &format!("{CONFIG_MAPS}/a")), Value::Null, 404, json!({"reason": "NotFound"})),
        ]).await;
    });
}

#[test]
fn a_running_pods_grace_period_can_only_be_shortened() {
    simulate(Setup::api_alone(), async |cluster| {
        let pod = running_pod(cluster, "p").await;
        let generation = pod["metadata"]["generation"].as_i64().unwrap();
        let one = format!("{PODS}/p");
        let delete = ("DELETE", one.as_str());
        run(cluster, [
            case("its own grace", delete, Value::Null, 200,
                json!({"kind": "Pod", "metadata": {"deletionGracePeriodSeconds": 30, "generation": generation + 1}})),
            case("again", delete, Value::Null, 200, json!({"metadata": {"deletionGracePeriodSeconds": 30}})),
            case("longer", delete, json!({"gracePeriodSeconds": 60}), 200, json!({"metadata": {"deletionGracePeriodSeconds": 30}})),
            case("shorter", delete, json!({"gracePeriodSeconds": 5}), 200,
                json!({"metadata": {"deletionGracePeriodSeconds": 5, "generation": generation + 1}})),
            case("negative means one", delete, json!({"gracePeriodSeconds": -7}), 200, json!({"metadata": {"deletionGracePeriodSeconds": 1}})),
            case("none", delete, json!({"gracePeriodSeconds": 0}), 200, json!({"kind": "Pod"})),
            case("gone", ("GET", &one), Value::Null, 404, json!({})),
        ]).await;
        cluster.create(manifests::pod("never-ran", json!({}))).await;
        run(
            cluster,
            [
                case(
                    "a pod without a node is deleted at once",
                    ("DELETE", &format!("{PODS}/never-ran")),
                    Value::Null,
                    200,
                    json!({"kind": "Pod"}),
                ),
                case("gone", ("GET", &format!("{PODS}/never-ran")), Value::Null, 404, json!({})),
            ],
        )
        .await;
    });
}

/// A kubelet takes a moment to end a pod, so that its client sees it terminating.
#[test]
fn a_deleted_pod_can_be_read_for_a_moment_although_its_program_ends_at_once() {
    simulate(Setup::seed(15), async |cluster| {
        super::streams::run(cluster, of_image("pause", "agnhost", &["pause"])).await;
        let path = "/api/v1/namespaces/default/pods/pause";
        let begun = cluster.nondet().clock.now();
        assert_eq!(
            cluster.rest().call("DELETE", &format!("{path}?gracePeriodSeconds=60"), "").await.code,
            200
        );
        tokio::time::sleep(Duration::from_millis(250)).await;
        let pod = cluster.get("pods", "default", "pause").await.unwrap();
        assert_eq!(pod["metadata"]["generation"], 2, "{pod}");
        let is_gone = async || cluster.get("pods", "default", "pause").await.is_none();
        cluster.wait_until("the pod is gone", is_gone).await;
        assert!(
            cluster.nondet().clock.now().duration_since(begun).as_secs() < 2,
            "its program needs no grace period"
        );
    });
}

#[test]
fn a_pod_with_a_finalizer_waits_for_grace_period_and_finalizer() {
    simulate(Setup::api_alone(), async |cluster| {
        running_pod(cluster, "p").await;
        let one = format!("{PODS}/p");
        run(
            cluster,
            [
                case("held", ("PATCH", &one), json!({"metadata": {"finalizers": ["x/y"]}}), 200, json!({})),
                case(
                    "marked with grace",
                    ("DELETE", &one),
                    Value::Null,
                    200,
                    json!({"metadata": {"deletionGracePeriodSeconds": 30}}),
                ),
                case(
                    "released too early",
                    ("PATCH", &one),
                    json!({"metadata": {"finalizers": null}}),
                    200,
                    json!({"metadata": {"deletionGracePeriodSeconds": 30}}),
                ),
                case("still there", ("GET", &one), Value::Null, 200, json!({})),
            ],
        )
        .await;
        let marked = cluster.get("pods", "default", "p").await.unwrap();
        run(
            cluster,
            [
                case(
                    "no new finalizers now",
                    ("PATCH", &one),
                    json!({"metadata": {"finalizers": ["a/b"]}}),
                    422,
                    json!({"message": "~no new finalizers can be added if the object is being deleted"}),
                ),
                case("ended", ("DELETE", &one), json!({"gracePeriodSeconds": 0}), 200, json!({})),
                case("gone", ("GET", &one), Value::Null, 404, json!({})),
            ],
        )
        .await;
        assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    });
}

#[test]
fn removing_the_last_finalizer_deletes_the_object() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut web = manifests::deployment("web", 0);
        web["metadata"]["finalizers"] = json!(["x/y"]);
        cluster.create(web).await;
        let one = format!("{DEPLOYMENTS}/web");
        run(
            cluster,
            [
                case(
                    "the generation moves once",
                    ("DELETE", &one),
                    Value::Null,
                    200,
                    json!({"metadata": {"generation": 2}}),
                ),
                case(
                    "and not again",
                    ("DELETE", &one),
                    Value::Null,
                    200,
                    json!({"metadata": {"generation": 2}}),
                ),
                case(
                    "foreground is added",
                    ("DELETE", &one),
                    json!({"propagationPolicy": "Foreground"}),
                    200,
                    json!({"metadata": {"finalizers": ["x/y", "foregroundDeletion"]}}),
                ),
                case(
                    "one is removed",
                    ("PATCH", &one),
                    json!({"metadata": {"finalizers": ["foregroundDeletion"]}}),
                    200,
                    json!({}),
                ),
                case(
                    "the last is removed",
                    ("PATCH", &one),
                    json!({"metadata": {"finalizers": null}}),
                    200,
                    json!({"kind": "Deployment"}),
                ),
                case("gone", ("GET", &one), Value::Null, 404, json!({})),
            ],
        )
        .await;
        let last = cluster
            .history()
            .into_iter()
            .rev()
            .find(|change| change.key.ends_with("/deployments/default/web"));
        assert!(last.unwrap().value.is_none());
    });
}

#[test]
fn deletion_preconditions_hold_and_default_propagation_depends_on_the_kind() {
    simulate(Setup::api_alone(), async |cluster| {
        let map = cluster.create(manifests::config_map("a", "1")).await;
        let (uid, version) = (&map["metadata"]["uid"], &map["metadata"]["resourceVersion"]);
        let one = format!("{CONFIG_MAPS}/a");
        let with = |preconditions: Value| json!({ "preconditions": preconditions });
        run(cluster, [
            case("another uid", ("DELETE", &one), with(json!({"uid": "else"})), 409,
                json!({"reason": "Conflict", "message": "~the UID in the precondition (else) does not match the UID in record ("})),
            case("an old revision", ("DELETE", &one), with(json!({"resourceVersion": "1"})), 409,
                json!({"reason": "Conflict", "message": "~the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ("})),
            case("an empty uid", ("DELETE", &one), with(json!({"uid": ""})), 409, json!({"reason": "Conflict"})),
            case("the right ones", ("DELETE", &one), with(json!({"uid": uid, "resourceVersion": version})), 200, json!({"status": "Success"})),
        ]).await;
        let job = |name: &str| {
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})
        };
        let jobs = "/apis/batch/v1/namespaces/default/jobs";
        for name in ["plain", "background"] {
            cluster.create(job(name)).await;
        }
        let plain = send(cluster, "DELETE", &format!("{jobs}/plain"), &Value::Null).await;
        assert_eq!(plain.json()["metadata"]["finalizers"], json!(["orphan"]));
        assert!(warnings(&plain)[0].contains("child pods are preserved by default when jobs are deleted"));
        let background = send(
            cluster,
            "DELETE",
            &format!("{jobs}/background"),
            &json!({"propagationPolicy": "Background"}),
        )
        .await;
        assert_eq!((background.text("/kind"), warnings(&background)), ("Status".to_owned(), vec![]));
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "r", "message": "m", "type": "Normal",
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}});
        cluster.create(event).await;
        let event = send(
            cluster,
            "DELETE",
            "/api/v1/namespaces/default/events/e",
            &json!({"propagationPolicy": "Foreground"}),
        )
        .await;
        assert_eq!(
            (event.code, event.text("/kind")),
            (200, "Status".to_owned()),
            "events take no such finalizers"
        );
    });
}

#[test]
fn a_namespace_is_deleted_when_its_finalizer_is_removed() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::namespace("n")).await;
        let one = "/api/v1/namespaces/n";
        let finalize = json!({"metadata": {"name": "n"}, "spec": {"finalizers": []}});
        run(cluster, [
            case("terminating", ("DELETE", one), Value::Null, 200,
                json!({"kind": "Namespace", "status": {"phase": "Terminating"}, "spec": {"finalizers": ["kubernetes"]}})),
            case("again", ("DELETE", one), Value::Null, 200, json!({"status": {"phase": "Terminating"}})),
            case("nothing new", ("POST", "/api/v1/namespaces/n/configmaps"), json!({"metadata": {"name": "a"}}), 403,
                json!({"reason": "Forbidden", "details": {"causes": [{"reason": "NamespaceTerminating",
                    "message": "namespace n is being terminated", "field": "metadata.namespace"}]}})),
            case("a PUT keeps the finalizer", ("PUT", one), finalize.clone(), 200, json!({"spec": {"finalizers": ["kubernetes"]}})),
            case("finalized", ("PUT", &format!("{one}/finalize")), finalize, 200, json!({"kind": "Namespace"})),
            case("gone", ("GET", one), Value::Null, 404, json!({})),
            case("never the default", ("DELETE", "/api/v1/namespaces/default"), Value::Null, 403, json!({"message": "~this namespace may not be deleted"})),
        ]).await;
    });
}

/// Creates objects in a namespace without a pause until it refuses one. Returns their number and the refusal.
async fn fill_until_refused(rest: Rest, namespace: &str, prefix: &str) -> (usize, Reply) {
    for number in 0.. {
        let map = json!({"metadata": {"name": format!("{prefix}-{number}")}}).to_string();
        let reply = rest.call("POST", &format!("/api/v1/namespaces/{namespace}/configmaps"), map).await;
        if reply.code != 201 {
            return (number, reply);
        }
        tokio::time::sleep(Duration::from_micros(300)).await;
    }
    unreachable!("the namespace is deleted at some time")
}

#[test]
fn no_apiserver_creates_objects_in_a_terminating_namespace() {
    for (seed, storage) in [(1, Storage::Embedded), (2, Storage::Etcd), (3, Storage::Etcd)] {
        simulate(Setup::seed(seed).nodes(0).on(storage), async |cluster| {
            cluster.create(manifests::namespace("shop")).await;
            let others = [cluster.another_apiserver().await, cluster.another_apiserver().await];
            let rests = [cluster.rest(), Rest::new(others[0].clone()), Rest::new(others[1].clone())];
            let mut creators = JoinSet::new();
            for (at, rest) in rests.into_iter().enumerate() {
                creators.spawn(async move { fill_until_refused(rest, "shop", &format!("m{at}")).await });
            }
            tokio::time::sleep(Duration::from_millis(20 + seed)).await;
            let deleted = send(cluster, "DELETE", "/api/v1/namespaces/shop", &Value::Null).await;
            let deleted: i64 = deleted.text("/metadata/resourceVersion").parse().unwrap();
            while let Some(filled) = creators.join_next().await {
                let (count, refused) = filled.unwrap();
                let is_terminating = refused.text("/details/causes/0/reason") == "NamespaceTerminating";
                assert!(count > 0 && (is_terminating || refused.code == 404), "{count} {}", refused.json());
            }
            let gone = async || cluster.get("namespaces", "", "shop").await.is_none();
            cluster.wait_until("the namespace is gone", gone).await;
            let (mut known, mut late) = (BTreeSet::new(), Vec::new());
            for change in cluster.history().into_iter().filter(|change| change.key.contains("/shop/")) {
                match change.value {
                    Some(_) if known.insert(change.key.clone()) && change.revision > deleted => {
                        late.push(change.key);
                    }
                    Some(_) => {}
                    None => drop(known.remove(&change.key)),
                }
            }
            assert_eq!((late, known), (Vec::new(), BTreeSet::new()), "{storage:?}");
        });
    }
}

#[test]
fn a_collection_is_deleted_by_selector_and_page_until_a_deletion_fails() {
    simulate(Setup::api_alone(), async |cluster| {
        for (name, tier) in [("a", "web"), ("b", "web"), ("c", "db"), ("d", "web")] {
            let mut map = manifests::config_map(name, "1");
            map["metadata"]["labels"] = json!({"tier": tier});
            cluster.create(map).await;
        }
        let names = |list: &Value| -> Vec<String> {
            let items = list["items"].as_array().unwrap();
            items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
        };
        let page =
            send(cluster, "DELETE", &format!("{CONFIG_MAPS}?labelSelector=tier%3Dweb&limit=2"), &Value::Null)
                .await;
        assert_eq!(
            (page.text("/kind"), names(&page.json())),
            ("ConfigMapList".into(), vec!["a".into(), "b".into()]),
            "a limit is one page"
        );
        let by_field = format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dc");
        assert_eq!(names(&send(cluster, "DELETE", &by_field, &Value::Null).await.json()), ["c"]);
        run(
            cluster,
            [
                case(
                    "a bad selector",
                    ("DELETE", &format!("{CONFIG_MAPS}?labelSelector=%3D")),
                    Value::Null,
                    400,
                    json!({"reason": "BadRequest"}),
                ),
                case(
                    "the first refusal ends it",
                    ("DELETE", CONFIG_MAPS),
                    json!({"preconditions": {"uid": "else"}}),
                    409,
                    json!({"reason": "Conflict"}),
                ),
                case(
                    "not over all namespaces",
                    ("DELETE", "/api/v1/configmaps"),
                    Value::Null,
                    405,
                    json!({"reason": "MethodNotAllowed"}),
                ),
                case(
                    "not namespaces",
                    ("DELETE", "/api/v1/namespaces"),
                    Value::Null,
                    405,
                    json!({"reason": "MethodNotAllowed"}),
                ),
            ],
        )
        .await;
        assert_eq!(cluster.list("configmaps", "default").await.len(), 1);
        let rest = send(cluster, "DELETE", CONFIG_MAPS, &json!({"propagationPolicy": "Foreground"})).await;
        assert_eq!(names(&rest.json()), ["d"]);
        let held = cluster.list("configmaps", "default").await;
        assert_eq!(held[0]["metadata"]["finalizers"], json!(["foregroundDeletion"]), "options hold for each");
    });
}

/// Regression: with more objects than one internal page, the second page was refused with 410 after a
/// compaction.
#[test]
fn a_large_collection_is_deleted_during_compactions() {
    const MANY: usize = 10_050;
    // An etcd takes minutes for this many objects, and the property does not depend on the storage.
    if std::env::var_os(kstore_tests::STORAGE).is_some() {
        return;
    }
    simulate(Setup::api_alone(), async |cluster| {
        let create = async |at: usize| {
            for name in (at..MANY).step_by(64).map(|n| format!("c-{n:05}")) {
                cluster.create(manifests::config_map(&name, "1")).await;
            }
        };
        futures::future::join_all((0..64).map(create)).await;
        let compact = async {
            loop {
                tokio::task::yield_now().await;
                // Compaction is refused if no write happened since the last one.
                let _ = cluster.store().compact(cluster.store().revision()).await;
            }
        };
        let gone = tokio::select! {
            biased;
            gone = send(cluster, "DELETE", CONFIG_MAPS, &Value::Null) => gone,
            () = compact => unreachable!("it never ends"),
        };
        assert_eq!(gone.code, 200, "{}", gone.text("/message"));
        assert_eq!(gone.json()["items"].as_array().map(Vec::len), Some(MANY));
        assert!(cluster.list("configmaps", "default").await.is_empty());
    });
}

/// The events of a watch of config maps after a revision.
async fn watched(cluster: &Cluster, revision: &str) -> Vec<Value> {
    let text = format!("watch=1&timeoutSeconds=2&resourceVersion={revision}");
    let reply = super::query(cluster, CONFIG_MAPS, &text).await;
    String::from_utf8_lossy(&reply.body).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_object_of_a_deleted_collection_has_an_event_and_a_revision_of_its_own() {
    const MANY: usize = 150;
    simulate(Setup::api_alone(), async |cluster| {
        let mut expected = BTreeMap::new();
        for number in 0..MANY {
            let mut map = manifests::config_map(&format!("c-{number:03}"), "1");
            if number % 50 == 7 {
                map["metadata"]["finalizers"] = json!(["x/y"]);
            }
            let made = cluster.create(map).await;
            expected.insert(made["metadata"]["name"].as_str().unwrap().to_owned(), made);
        }
        let before = send(cluster, "GET", CONFIG_MAPS, &Value::Null).await;
        let listed = send(cluster, "DELETE", CONFIG_MAPS, &Value::Null).await;
        assert_eq!(
            listed.json()["items"],
            before.json()["items"],
            "the answer is the list before the deletion"
        );
        let events = watched(cluster, &before.text("/metadata/resourceVersion")).await;
        let mut last = 0;
        for event in &events {
            let (object, meta) = (&event["object"], &event["object"]["metadata"]);
            let mut wanted =
                expected.remove(meta["name"].as_str().unwrap()).expect("one event for each object");
            let revision = meta["resourceVersion"].as_str().unwrap().parse::<i64>().unwrap();
            assert!(revision > last, "{revision} after {last}");
            last = revision;
            wanted["metadata"]["resourceVersion"] = meta["resourceVersion"].clone();
            if wanted["metadata"]["finalizers"].is_array() {
                assert_eq!(event["type"], "MODIFIED");
                assert!(meta["deletionTimestamp"].is_string());
                for member in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
                    wanted["metadata"][member] = meta[member].clone();
                }
            } else {
                assert_eq!(event["type"], "DELETED");
            }
            assert_eq!(object, &wanted);
        }
        assert!(expected.is_empty(), "{expected:?}");
        let left = cluster.list("configmaps", "default").await;
        assert_eq!(left.len(), 3);
        send(cluster, "DELETE", CONFIG_MAPS, &Value::Null).await;
        let again = cluster.list("configmaps", "default").await;
        assert_eq!(again, left, "terminating objects stay as they are");
        let dry = send(cluster, "DELETE", &format!("{CONFIG_MAPS}?dryRun=All"), &Value::Null).await;
        assert_eq!((dry.code, cluster.list("configmaps", "default").await), (200, left));
    });
}

#[test]
fn pods_of_a_deleted_collection_keep_their_grace_and_their_managed_fields() {
    simulate(Setup::api_alone(), async |cluster| {
        let pods = [running_pod(cluster, "a").await, running_pod(cluster, "b").await];
        cluster.create(manifests::pod("never-ran", json!({}))).await;
        send(cluster, "DELETE", PODS, &json!({"gracePeriodSeconds": 9})).await;
        let left = cluster.list("pods", "default").await;
        assert_eq!(left.len(), 2, "a pod without a node is deleted at once");
        for (before, after) in pods.into_iter().zip(left) {
            let mut wanted = before.clone();
            let meta = &mut wanted["metadata"];
            meta["generation"] = json!(before["metadata"]["generation"].as_i64().unwrap() + 1);
            meta["deletionGracePeriodSeconds"] = json!(9);
            assert!(after["metadata"]["deletionTimestamp"].is_string());
            for member in ["resourceVersion", "deletionTimestamp"] {
                meta[member] = after["metadata"][member].clone();
            }
            assert_eq!(after, wanted);
        }
        let ended = send(cluster, "DELETE", PODS, &json!({"gracePeriodSeconds": 0})).await;
        assert_eq!((ended.code, cluster.list("pods", "default").await), (200, Vec::new()));
    });
}

/// Regression: each page began with the same terminating objects again, and the call never ended.
#[test]
fn a_client_deletes_a_collection_that_has_more_terminating_objects_than_a_page() {
    const MANY: usize = 520;
    simulate(Setup::api_alone(), async |cluster| {
        let create = async |at: usize| {
            for name in (at..MANY).step_by(40).map(|n| format!("c-{n:05}")) {
                let mut map = manifests::config_map(&name, "1");
                map["metadata"]["finalizers"] = json!(["x/y"]);
                cluster.create(map).await;
            }
        };
        futures::future::join_all((0..40).map(create)).await;
        let (all, params) = (ListParams::default(), DeleteParams::default());
        let maps = cluster.resource("configmaps");
        let deletion = maps.delete_collection("default", &all, &params);
        tokio::time::timeout(Duration::from_secs(60), deletion).await.expect("it ends").unwrap();
        let left = cluster.list("configmaps", "default").await;
        assert_eq!(left.len(), MANY);
        assert!(left.iter().all(|map| map["metadata"]["deletionTimestamp"].is_string()));
    });
}
