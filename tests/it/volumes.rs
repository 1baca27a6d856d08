//! Volumes end to end: claims get volumes, volumes wait for claims, and neither goes while it is used.

use kstore_client::{DeleteParams, ListParams};
use kstore_informer::Revision;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::time::Duration;

fn claim(name: &str, spec: Value) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    for (field, value) in spec.as_object().unwrap() {
        claim["spec"][field] = value.clone();
    }
    claim
}

fn user_of(name: &str, claim: &str) -> Value {
    manifests::pod(
        name,
        json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}),
    )
}

async fn bound(cluster: &Cluster, name: &str) -> Value {
    let is_bound = |claim: &Value| claim["status"]["phase"] == "Bound";
    cluster.wait_object("persistentvolumeclaims", name, "it is bound", is_bound).await
}

async fn volumes(cluster: &Cluster) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = cluster.list("persistentvolumes", "").await;
    all.iter().map(|volume| (text(&volume["metadata"]["name"]), text(&volume["status"]["phase"]))).collect()
}

#[test]
fn a_claim_without_class_gets_a_volume_when_its_first_pod_is_on_a_node() {
    simulate(Setup::seed(61), async |cluster| {
        cluster.create(claim("data", json!({}))).await;
        let classed = |claim: &Value| claim["spec"]["storageClassName"] == "standard";
        cluster.wait_object("persistentvolumeclaims", "data", "it has a class", classed).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(volumes(cluster).await, [], "nobody uses it yet");

        cluster.create(user_of("db", "data")).await;
        let claim = bound(cluster, "data").await;
        let name = claim["spec"]["volumeName"].as_str().unwrap();
        assert_eq!(name, format!("pvc-{}", claim["metadata"]["uid"].as_str().unwrap()));
        assert_eq!(claim["status"]["capacity"]["storage"], "1Gi");
        assert_eq!(volumes(cluster).await, [(name.to_owned(), "Bound".to_owned())]);
        let pod = cluster.get("pods", "default", "db").await.unwrap();
        let node = &claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"];
        assert_eq!(*node, pod["spec"]["nodeName"]);

        let more = json!({"spec": {"resources": {"requests": {"storage": "5Gi"}}}});
        cluster.merge("persistentvolumeclaims", "data", more).await;
        let grown = |claim: &Value| claim["status"]["capacity"]["storage"] == "5Gi";
        cluster.wait_object("persistentvolumeclaims", "data", "it has grown", grown).await;
    });
}

#[test]
fn a_claim_goes_after_the_pod_that_uses_it_and_its_volume_with_it() {
    simulate(Setup::seed(62), async |cluster| {
        cluster.create(claim("data", json!({}))).await;
        cluster.create(user_of("db", "data")).await;
        bound(cluster, "data").await;
        cluster.delete("persistentvolumeclaims", "data", DeleteParams::default()).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let kept = cluster.get("persistentvolumeclaims", "default", "data").await.unwrap();
        assert_eq!(kept["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
        cluster.delete("pods", "db", DeleteParams::default()).await;
        let gone = async || volumes(cluster).await.is_empty();
        cluster.wait_until("claim and volume are gone", gone).await;
        assert_eq!(cluster.get("persistentvolumeclaims", "default", "data").await, None);
    });
}

#[test]
fn volumes_made_by_people_are_bound_released_and_kept() {
    simulate(Setup::seed(63), async |cluster| {
        let volume = |name: &str, size: &str| {
            json!({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "hostPath": {"path": "/tmp"},
                    "persistentVolumeReclaimPolicy": "Retain",
                },
            })
        };
        cluster.create(volume("large", "100Gi")).await;
        cluster.create(volume("small", "2Gi")).await;
        cluster.create(claim("data", json!({"storageClassName": ""}))).await;
        let claim = bound(cluster, "data").await;
        assert_eq!(claim["spec"]["volumeName"], "small");
        assert_eq!(claim["status"]["capacity"]["storage"], "2Gi", "it has what the volume has");
        let phases = |large: &str, small: &str| {
            [("large".to_owned(), large.to_owned()), ("small".to_owned(), small.to_owned())]
        };
        let large_waits = async || volumes(cluster).await == phases("Available", "Bound");
        cluster.wait_until("the other is available", large_waits).await;
        cluster.delete("persistentvolumeclaims", "data", DeleteParams::default()).await;
        let released = async || volumes(cluster).await == phases("Available", "Released");
        cluster.wait_until("it is released and kept", released).await;
    });
}

#[test]
fn a_binding_is_one_revision() {
    simulate(Setup::seed(64), async |cluster| {
        cluster.create(claim("data", json!({}))).await;
        cluster.create(user_of("db", "data")).await;
        let claim = bound(cluster, "data").await;
        let is_bound = async |plural: &str, at: u64| {
            let params = ListParams { at: Some(Revision(at)), ..ListParams::default() };
            let (all, _) = cluster.resource(plural).list("", &params).await.unwrap();
            all.iter().any(|object| object["status"]["phase"] == "Bound")
        };
        let last: u64 = claim["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        let mut seen = Vec::new();
        for at in last.saturating_sub(30)..=last {
            seen.push((
                is_bound("persistentvolumeclaims", at).await,
                is_bound("persistentvolumes", at).await,
            ));
        }
        assert!(seen.contains(&(false, false)) && seen.contains(&(true, true)), "{seen:?}");
        assert!(
            seen.iter().all(|(claim, volume)| claim == volume),
            "one is bound without the other: {seen:?}"
        );
    });
}
