//! ResourceQuotas in a whole cluster: concurrent writers over REST and gRPC never exceed a quota and lose no
//! charge, usage of deleted objects is released, and any kind can be limited. Unit tests of the evaluators
//! cover the usage of each kind.

use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kstore_client::{ApiError, DeleteParams, Gvr, Patch, Transaction};
use kstore_tests::{Cluster, Rest, Setup, manifests, simulate};
use serde_json::{Value, json};

const WRITERS: usize = 64;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn quota(name: &str, hard: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}})
}

/// Stores a quota and waits until it is in force.
async fn bound(cluster: &Cluster, hard: Value) {
    cluster.create(quota("q", &hard)).await;
    in_force(cluster, &hard).await;
}

async fn in_force(cluster: &Cluster, hard: &Value) {
    cluster.wait_until("the quota is in force", async || status(cluster).await["hard"] == *hard).await;
}

async fn status(cluster: &Cluster) -> Value {
    cluster.get("resourcequotas", "default", "q").await.unwrap()["status"].clone()
}

async fn uses(cluster: &Cluster, want: Value) {
    let what = format!("{want} is used");
    cluster.wait_until(&what, async || status(cluster).await["used"] == want).await;
}

/// The code of the answer to a POST.
async fn rest_post(rest: &Rest, path: &str, object: &Value) -> u16 {
    rest.call("POST", path, object.to_string()).await.code
}

fn is_exceeded<T: std::fmt::Debug>(result: Result<T, ApiError>) {
    let text = result.unwrap_err().to_string();
    assert!(text.contains("forbidden: exceeded quota: q, requested: "), "{text}");
}

fn pod(name: &str, cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}})
}

#[test]
fn concurrent_creators_over_rest_and_grpc_never_exceed_a_quota() {
    simulate(Setup::controllers(), async |cluster| {
        bound(cluster, json!({"count/configmaps": "41"})).await;
        let before = cluster.list("configmaps", "default").await.len();
        let rest = cluster.rest();
        let other = Rest::new(cluster.another_apiserver().await);
        let created = join_all((0..WRITERS).map(async |at| {
            let map = manifests::config_map(&format!("m{at}"), "1");
            match at % 3 {
                0 => cluster.try_create(map).await.is_ok(),
                1 => rest_post(&rest, MAPS, &map).await == 201,
                _ => rest_post(&other, MAPS, &map).await == 201,
            }
        }))
        .await;
        let made = created.into_iter().filter(|made| *made).count();
        assert_eq!((before + made, cluster.list("configmaps", "default").await.len()), (41, 41));
        assert_eq!(status(cluster).await["used"], json!({"count/configmaps": "41"}));
        is_exceeded(cluster.try_create(manifests::config_map("more", "1")).await);
    });
}

#[test]
fn the_charge_is_in_the_commit_of_the_object() {
    simulate(Setup::controllers(), async |cluster| {
        bound(cluster, json!({"requests.cpu": "2", "pods": "9"})).await;
        cluster.create(pod("a", "500m")).await;
        let all = cluster.history();
        let at = all.iter().find(|change| change.key == "/registry/pods/default/a").unwrap().revision;
        let together: Vec<_> =
            all.iter().filter(|change| change.revision == at).map(|c| c.key.as_str()).collect();
        assert_eq!(together, ["/registry/pods/default/a", "/registry/resourcequotas/default/q"]);
        assert_eq!(status(cluster).await["used"], json!({"requests.cpu": "500m", "pods": "1"}));
        // Failed requests charge nothing, and neither do dry runs.
        assert!(cluster.try_create(pod("a", "500m")).await.unwrap_err().is_already_exists());
        is_exceeded(cluster.try_create(pod("b", "1501m")).await);
        let dry = "/api/v1/namespaces/default/pods?dryRun=All";
        assert_eq!(rest_post(&cluster.rest(), dry, &pod("b", "1")).await, 201);
        assert_eq!(rest_post(&cluster.rest(), dry, &pod("b", "2")).await, 403);
        assert_eq!(status(cluster).await["used"], json!({"requests.cpu": "500m", "pods": "1"}));
    });
}

#[test]
fn usage_of_deleted_objects_is_released() {
    simulate(Setup::controllers(), async |cluster| {
        bound(cluster, json!({"requests.cpu": "2", "pods": "2", "count/pods": "9", "secrets": "1"})).await;
        cluster.create(pod("a", "1")).await;
        cluster.create(pod("b", "1")).await;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
        cluster.create(secret.clone()).await;
        is_exceeded(cluster.try_create(pod("c", "0")).await);
        let now = DeleteParams { grace: Some(0), ..DeleteParams::default() };
        cluster.delete("pods", "a", now).await;
        uses(cluster, json!({"requests.cpu": "1", "pods": "1", "count/pods": "1", "secrets": "1"})).await;
        let done = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        cluster.resource("pods").patch("default", "b", "status", &done).await.unwrap();
        cluster.delete("secrets", "s", DeleteParams::default()).await;
        uses(cluster, json!({"requests.cpu": "0", "pods": "0", "count/pods": "1", "secrets": "0"})).await;
        cluster.create(secret).await;
        cluster.create(pod("c", "2")).await;
    });
}

#[test]
fn quotas_charge_updates_for_the_increase_only() {
    simulate(Setup::controllers(), async |cluster| {
        let hard = json!({"requests.cpu": "2", "services.loadbalancers": "1", "services.nodeports": "1"});
        bound(cluster, hard).await;
        cluster.create(pod("a", "1")).await;
        let resize = async |cpu: &str| {
            let resources = json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
            let patch = json!({"spec": {"containers": [{"name": "c", "resources": resources}]}});
            cluster.resource("pods").patch("default", "a", "resize", &Patch::Strategic(patch)).await
        };
        is_exceeded(resize("3").await);
        resize("1500m").await.unwrap();
        assert_eq!(status(cluster).await["used"]["requests.cpu"], "1500m");
        let service = |name: &str| {
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
                "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}})
        };
        cluster.create(service("a")).await;
        cluster.create(service("b")).await;
        let balanced = || Patch::Merge(json!({"spec": {"type": "LoadBalancer"}}));
        cluster.resource("services").patch("default", "a", "", &balanced()).await.unwrap();
        assert_eq!(status(cluster).await["used"]["services.nodeports"], "1");
        is_exceeded(cluster.resource("services").patch("default", "b", "", &balanced()).await);
        cluster.merge("services", "a", json!({"spec": {"type": "ClusterIP"}})).await;
        uses(
            cluster,
            json!({"requests.cpu": "1500m", "services.loadbalancers": "0", "services.nodeports": "0"}),
        )
        .await;
        cluster.resource("services").patch("default", "b", "", &balanced()).await.unwrap();
    });
}

#[test]
fn a_pod_cannot_move_into_a_full_scope_by_an_update() {
    simulate(Setup::controllers(), async |cluster| {
        for (name, scope) in [("term", "Terminating"), ("not", "NotTerminating")] {
            let mut quota =
                quota(name, &json!({"count/pods": if scope == "Terminating" { "1" } else { "2" }}));
            quota["spec"]["scopes"] = json!([scope]);
            cluster.create(quota).await;
            let in_force = |quota: &Value| quota["status"]["used"]["count/pods"] == "0";
            cluster.wait_object("resourcequotas", name, "is in force", in_force).await;
        }
        let rest = cluster.rest();
        let deadline = json!({"spec": {"activeDeadlineSeconds": 500}}).to_string();
        for (name, code) in [("p", 200), ("q", 403)] {
            cluster.create(pod(name, "1")).await;
            let path = format!("/api/v1/namespaces/default/pods/{name}");
            let reply = rest.call_as("PATCH", &path, "application/merge-patch+json", deadline.clone()).await;
            assert_eq!(reply.code, code, "{name}");
            if code == 403 {
                let text = "exceeded quota: term, requested: count/pods=1, used: count/pods=1, limited: count/pods=1";
                assert!(reply.text("/message").ends_with(text), "{}", reply.text("/message"));
            }
        }
    });
}

#[test]
fn devices_are_limited_by_their_class() {
    simulate(Setup::controllers(), async |cluster| {
        let name = "gpu.deviceclass.resource.k8s.io/devices";
        bound(cluster, json!({ name: "3" })).await;
        let claim = |name: &str, count: u32| {
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}]}}})
        };
        cluster.create(claim("a", 2)).await;
        is_exceeded(cluster.try_create(claim("b", 2)).await);
        cluster.create(claim("c", 1)).await;
        uses(cluster, json!({ name: "3" })).await;
        cluster.delete("resourceclaims", "a", DeleteParams::default()).await;
        uses(cluster, json!({ name: "1" })).await;
    });
}

#[test]
fn transactions_are_charged_whole_or_not_at_all() {
    simulate(Setup::controllers(), async |cluster| {
        bound(cluster, json!({"count/configmaps": "20"})).await;
        let before = cluster.list("configmaps", "default").await.len();
        let map =
            |name: String| serde_json::from_value::<ConfigMap>(manifests::config_map(&name, "1")).unwrap();
        let pair = async |at: usize| {
            let transaction = Transaction::new(cluster.client());
            let transaction = transaction.create("default", &map(format!("a{at}")));
            transaction.create("default", &map(format!("b{at}"))).commit().await.is_ok()
        };
        let single =
            async |at: usize| cluster.try_create(manifests::config_map(&format!("c{at}"), "1")).await.is_ok();
        let (pairs, singles) = futures::join!(join_all((0..6).map(pair)), join_all((0..6).map(single)));
        let count = |made: Vec<bool>| made.into_iter().filter(|made| *made).count();
        let made = before + 2 * count(pairs) + count(singles);
        assert_eq!(cluster.list("configmaps", "default").await.len(), made);
        assert_eq!(status(cluster).await["used"]["count/configmaps"], made.to_string());
        let all = (0..=20 - made).fold(Transaction::new(cluster.client()), |transaction, at| {
            transaction.create("default", &map(format!("d{at}")))
        });
        let refused = all.commit().await.err().unwrap().to_string();
        assert!(refused.contains("exceeded quota: q"), "{refused}");
        assert_eq!(cluster.list("configmaps", "default").await.len(), made);
        assert_eq!(status(cluster).await["used"]["count/configmaps"], made.to_string());
    });
}

#[test]
fn objects_of_custom_kinds_are_counted_once_the_kind_is_defined() {
    simulate(Setup::controllers(), async |cluster| {
        let hard = json!({"count/lamps.light.example.com": "2", "count/events": "100"});
        cluster.create(quota("q", &hard)).await;
        in_force(cluster, &hard).await;
        uses(cluster, json!({"count/events": "0"})).await;
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        cluster
            .create(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "lamps.light.example.com"},
                "spec": {"group": "light.example.com", "scope": "Namespaced",
                    "names": {"plural": "lamps", "kind": "Lamp"},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}}))
            .await;
        uses(cluster, json!({"count/events": "0", "count/lamps.light.example.com": "0"})).await;
        let lamps = cluster.client().dynamic(Gvr::new("light.example.com", "v1", "lamps"));
        let lamp = |name: &str| json!({"apiVersion": "light.example.com/v1", "kind": "Lamp", "metadata": {"name": name}});
        let created = join_all((0..8).map(async |at| {
            lamps
                .create("default", &lamp(&format!("l{at}")))
                .await
                .map(|lamp| lamp["metadata"]["name"].clone())
        }));
        let created: Vec<Value> = created.await.into_iter().filter_map(Result::ok).collect();
        assert_eq!(created.len(), 2);
        is_exceeded(lamps.create("default", &lamp("more")).await);
        let name = created[0].as_str().unwrap();
        lamps.delete("default", name, &DeleteParams::default()).await.unwrap();
        uses(cluster, json!({"count/events": "0", "count/lamps.light.example.com": "1"})).await;
        lamps.create("default", &lamp("more")).await.unwrap();
    });
}

#[test]
fn a_deployment_stays_within_a_quota_and_continues_when_it_is_raised() {
    simulate(Setup::seed(5), async |cluster| {
        bound(cluster, json!({"pods": "2"})).await;
        cluster.create(manifests::deployment("web", 3)).await;
        uses(cluster, json!({"pods": "2"})).await;
        let failing = async || {
            let sets = cluster.list("replicasets", "default").await;
            let text = sets[0]["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned();
            text.contains("exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2")
        };
        cluster.wait_until("the set says why it is too small", failing).await;
        cluster.merge("resourcequotas", "q", json!({"spec": {"hard": {"pods": "3"}}})).await;
        uses(cluster, json!({"pods": "3"})).await;
    });
}
