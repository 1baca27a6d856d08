//! Fences of leaders over REST and gRPC: the server refuses late writes of a deposed leader, independent of
//! clocks (property L2 of the informer). Also the encoding of a fence on the wire.

use http_body_util::Full;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kstore_client::{Api, ClientLease, DeleteParams, Patch};
use kstore_informer::{Elector, Fence, Leadership, LeaseRecord, LeaseStore as _, Revision};
use kstore_tests::{Cluster, Reply, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn lease(cluster: &Cluster) -> ClientLease {
    ClientLease::new(cluster.client(), "kube-system", "office")
}

/// Queue length for terms of a candidate that a test does not read.
const TERMS: usize = 8;

/// Starts a candidate that leads until it is stopped and sends each term that begins.
fn candidate(cluster: &Cluster, name: &str) -> (CancellationToken, mpsc::Receiver<Fence>) {
    let (stop, (sender, terms)) = (CancellationToken::new(), mpsc::channel(TERMS));
    let elector = Elector::new(lease(cluster), name, cluster.nondet());
    let work = move |leadership: Leadership| {
        // The receiver may be gone.
        let _ = sender.try_send(leadership.fence().clone());
        async move { leadership.lost().cancelled().await }
    };
    tokio::spawn(elector.run(stop.clone(), work));
    (stop, terms)
}

fn maps(cluster: &Cluster, fence: &Fence) -> Api<ConfigMap> {
    cluster.client().fence(fence).api()
}

fn map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(manifests::config_map(name, value)).unwrap()
}

fn value_patch(value: &str) -> Patch {
    Patch::Merge(json!({ "data": { "value": value } }))
}

async fn stored(cluster: &Cluster) -> Option<Value> {
    Some(cluster.get("configmaps", "default", "one").await?["data"]["value"].clone())
}

async fn rest(cluster: &Cluster, method: &str, path: &str, fence: &str, body: Value) -> Reply {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request =
        http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    cluster.rest().send(request.header("kstore-fence", fence).body(Full::new(body.into())).unwrap()).await
}

/// Property L2 over gRPC, for every kind of write.
#[test]
fn late_writes_of_a_deposed_leader_are_refused_over_grpc() {
    simulate(Setup::api_alone(), async |cluster| {
        let (stop, mut terms) = candidate(cluster, "first");
        let old = terms.recv().await.unwrap();
        maps(cluster, &old).create("default", &map("one", "1")).await.unwrap();
        // A term continues over renewals.
        sleep(Duration::from_secs(60)).await;
        maps(cluster, &old).patch("default", "one", &value_patch("2")).await.unwrap();

        stop.cancel();
        let (_stop, mut terms) = candidate(cluster, "second");
        let new = terms.recv().await.unwrap();
        assert_eq!((old.transitions, new.transitions), (0, 1));
        let late = maps(cluster, &old);
        let refusals = [
            late.create("default", &map("two", "1")).await.map(drop),
            late.patch("default", "one", &value_patch("3")).await.map(drop),
            late.patch("default", "one", &value_patch("2")).await.map(drop),
            late.update(&map("one", "3")).await.map(drop),
            late.delete("default", "one", &DeleteParams::default()).await.map(drop),
        ];
        for refused in refusals {
            let error = refused.unwrap_err();
            assert!(error.is_conflict() && error.is_fenced(), "{error}");
            assert_eq!(
                error.to_string(),
                "Operation cannot be fulfilled on leases.coordination.k8s.io \"office\": \"first\" does not hold it \
                 with 0 transitions any more: nothing was written"
            );
        }
        assert_eq!(stored(cluster).await, Some(json!("2")));
        assert!(late.get("default", "one").await.is_ok(), "reads take no notice");
        maps(cluster, &new).patch("default", "one", &value_patch("4")).await.unwrap();
        assert_eq!(stored(cluster).await, Some(json!("4")));
    });
}

/// Property L2 over REST, and malformed fences.
#[test]
fn late_writes_of_a_deposed_leader_are_refused_over_rest() {
    simulate(Setup::api_alone(), async |cluster| {
        let (_stop, mut terms) = candidate(cluster, "höst/1 a");
        let fence = terms.recv().await.unwrap().to_string();
        let object = manifests::config_map("one", "1");
        assert_eq!(rest(cluster, "POST", CONFIG_MAPS, &fence, object.clone()).await.code, 201);
        let one = format!("{CONFIG_MAPS}/one");
        for other in
            ["kube-system/office/1/h%C3%B6st%2F1%20a", "kube-system/office/0/b", "default/office/0/b"]
        {
            let replies = [
                rest(cluster, "PUT", &one, other, manifests::config_map("one", "2")).await,
                rest(cluster, "DELETE", &one, other, Value::Null).await,
                rest(cluster, "DELETE", CONFIG_MAPS, other, Value::Null).await,
                rest(cluster, "POST", CONFIG_MAPS, other, manifests::config_map("two", "2")).await,
            ];
            for reply in replies {
                assert_eq!((reply.code, reply.text("/reason")), (409, "Conflict".into()), "{other}");
                assert_eq!(reply.text("/details/causes/0/reason"), "LeaseNotHeld");
            }
        }
        for malformed in ["", "x", "kube-system/office/-1/a", "kube-system/office/1/a%"] {
            let reply = rest(cluster, "DELETE", &one, malformed, Value::Null).await;
            assert_eq!((reply.code, reply.text("/reason")), (400, "BadRequest".into()), "{malformed:?}");
        }
        assert_eq!(stored(cluster).await, Some(json!("1")));
        assert_eq!(rest(cluster, "DELETE", &one, &fence, Value::Null).await.code, 200);
        assert_eq!(stored(cluster).await, None);
    });
}

/// The Lease of a kstore candidate has the fields that Kubernetes' candidates read.
#[test]
fn the_leader_lease_has_the_fields_of_client_go() {
    simulate(Setup::api_alone(), async |cluster| {
        let (stop, mut terms) = candidate(cluster, "ours");
        terms.recv().await.unwrap();
        let api: Api<Lease> = cluster.client().api();
        api.patch("kube-system", "office", &Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } })))
            .await
            .unwrap();
        sleep(Duration::from_secs(7)).await;
        let raw = cluster.get("leases", "kube-system", "office").await.unwrap();
        let (spec, micros) = (&raw["spec"], |time: &Value| time.as_str().unwrap().len());
        assert_eq!((&spec["holderIdentity"], &spec["leaseDurationSeconds"]), (&json!("ours"), &json!(15)));
        assert_eq!(
            (&spec["leaseTransitions"], &raw["metadata"]["labels"]),
            (&json!(0), &json!({ "a": "b" }))
        );
        assert_eq!(micros(&spec["acquireTime"]), "2026-01-01T00:00:00.000000Z".len());
        assert_eq!(micros(&spec["renewTime"]), "2026-01-01T00:00:00.000000Z".len());
        assert!(spec["renewTime"].as_str() > spec["acquireTime"].as_str());
        stop.cancel();
        sleep(Duration::from_secs(1)).await;
        let spec = cluster.get("leases", "kube-system", "office").await.unwrap()["spec"].clone();
        assert_eq!((&spec["holderIdentity"], &spec["leaseDurationSeconds"]), (&json!(""), &json!(1)));
        assert_eq!(spec["leaseTransitions"], 0);
    });
}

/// A Lease written by client-go is awaited, and followed by the next transition.
#[test]
fn a_lease_of_client_go_is_awaited_and_taken_over() {
    simulate(Setup::api_alone(), async |cluster| {
        let spec = json!({ "holderIdentity": "go_1f", "leaseDurationSeconds": 4, "leaseTransitions": 8,
            "acquireTime": "2031-05-06T07:08:09.000001Z", "renewTime": "2031-05-06T07:08:09.654321Z" });
        let metadata = json!({ "name": "office", "namespace": "kube-system" });
        let object = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec });
        let theirs: Lease = serde_json::from_value(object).unwrap();
        cluster.client().api::<Lease>().create("kube-system", &theirs).await.unwrap();
        let (record, revision) = lease(cluster).get().await.unwrap().unwrap();
        let time = |text: &str| text.parse().unwrap();
        assert_eq!(
            record,
            LeaseRecord {
                holder: "go_1f".into(),
                duration: Duration::from_secs(4),
                acquired: time("2031-05-06T07:08:09.000001Z"),
                renewed: time("2031-05-06T07:08:09.654321Z"),
                transitions: 8,
            }
        );
        assert!(revision > Revision(0));
        let (_stop, mut terms) = candidate(cluster, "ours");
        sleep(Duration::from_secs(3)).await;
        assert!(terms.try_recv().is_err(), "their four seconds are not over");
        assert_eq!(terms.recv().await.unwrap().transitions, 9);
    });
}
