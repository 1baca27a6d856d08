//! Volumes end to end: claims are bound, volumes wait for claims, and neither is deleted while in use.

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
fn a_claim_without_class_gets_a_volume_on_the_node_of_its_first_pod() {
    simulate(Setup::seed(61), async |cluster| {
        cluster.create(claim("data", json!({}))).await;
        let classed = |claim: &Value| claim["spec"]["storageClassName"] == "standard";
        cluster.wait_object("persistentvolumeclaims", "data", "it has a class", classed).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(volumes(cluster).await, [], "no pod uses it yet");

        cluster.create(user_of("db", "data")).await;
        let claim = bound(cluster, "data").await;
        let name = claim["spec"]["volumeName"].as_str().unwrap();
        assert_eq!(name, format!("pvc-{}", claim["metadata"]["uid"].as_str().unwrap()));
        assert_eq!(claim["status"]["capacity"]["storage"], "1Gi");
        assert_eq!(volumes(cluster).await, [(name.to_owned(), "Bound".to_owned())]);
        let node = &claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"];
        assert_eq!(*node, running(cluster, "db").await.as_str());

        let more = json!({"spec": {"resources": {"requests": {"storage": "5Gi"}}}});
        cluster.merge("persistentvolumeclaims", "data", more).await;
        let grown = |claim: &Value| claim["status"]["capacity"]["storage"] == "5Gi";
        cluster.wait_object("persistentvolumeclaims", "data", "it has grown", grown).await;
    });
}

#[test]
fn a_claim_and_its_volume_are_deleted_after_the_pod_that_uses_them() {
    simulate(Setup::seed(62), async |cluster| {
        cluster.create(claim("data", json!({}))).await;
        cluster.create(user_of("db", "data")).await;
        bound(cluster, "data").await;
        // A pod uses a claim from its binding on.
        running(cluster, "db").await;
        cluster.delete("persistentvolumeclaims", "data", DeleteParams::default()).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let kept = cluster.get("persistentvolumeclaims", "default", "data").await.unwrap();
        assert_eq!(kept["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
        cluster.delete("pods", "db", DeleteParams::default()).await;
        let gone = async || volumes(cluster).await.is_empty();
        cluster.wait_until("claim and volume are deleted", gone).await;
        assert_eq!(cluster.get("persistentvolumeclaims", "default", "data").await, None);
    });
}

#[test]
fn manually_created_volumes_are_bound_released_and_kept() {
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
        assert_eq!(claim["status"]["capacity"]["storage"], "2Gi", "it has the volume's capacity");
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

const HOST: &str = "kubernetes.io/hostname";

fn class(name: &str, provisioner: &str, more: Value) -> Value {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
    });
    for (field, value) in more.as_object().unwrap() {
        class[field] = value.clone();
    }
    class
}

/// A volume of a class that only one node can use.
fn local_volume(name: &str, class: &str, node: &str) -> Value {
    let here = json!({"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]});
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "local": {"path": "/disk"},
            "persistentVolumeReclaimPolicy": "Retain", "storageClassName": class,
            "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
        },
    })
}

async fn running(cluster: &Cluster, pod: &str) -> String {
    let pod = cluster.wait_object("pods", pod, "it runs", |pod| pod["status"]["phase"] == "Running").await;
    pod["spec"]["nodeName"].as_str().unwrap().to_owned()
}

/// Waits until an event says why the pod was not scheduled, and checks that its condition says so, too.
async fn unschedulable(cluster: &Cluster, pod: &str, why: &str) {
    let has_event = async || {
        let events = cluster.list("events", "default").await;
        events.iter().any(|event| {
            event["reason"] == "FailedScheduling"
                && event["involvedObject"]["name"] == pod
                && event["message"].as_str().unwrap().contains(why)
        })
    };
    cluster.wait_until(&format!("{pod} is unschedulable: {why}"), has_event).await;
    let pod = cluster.get("pods", "default", pod).await.unwrap();
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(pod["status"]["conditions"][0]["reason"], "Unschedulable", "{}", pod["status"]);
}

const NO_VOLUME: &str = "node(s) didn't find available persistent volumes to bind";

#[test]
fn a_stateful_set_gets_volumes_in_its_class_topology_and_its_pods_return_to_them() {
    simulate(Setup::seed(65), async |cluster| {
        let topology = json!([{"matchLabelExpressions": [{"key": HOST, "values": ["node-1", "node-2"]}]}]);
        let more = json!({"allowedTopologies": topology});
        cluster.create(class("zonal", "volumes.kstore.dev", more)).await;
        let template = json!({
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "zonal",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        });
        cluster
            .create(json!({
                "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
                "spec": {
                    "replicas": 4, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
                    "podManagementPolicy": "Parallel", "volumeClaimTemplates": [template],
                    "template": {
                        "metadata": {"labels": {"app": "db"}},
                        "spec": {"containers": [{"name": "main", "image": "db:1"}]},
                    },
                },
            }))
            .await;
        for ordinal in 0..4 {
            let node = running(cluster, &format!("db-{ordinal}")).await;
            assert!(["node-1", "node-2"].contains(&node.as_str()), "db-{ordinal} is on {node}");
            let claim = bound(cluster, &format!("data-db-{ordinal}")).await;
            assert_eq!(claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"], node.as_str());
        }
        // The volume stays on its node; the pod returns to it, or waits.
        for node in ["node-1", "node-2"] {
            cluster.merge("nodes", node, json!({"spec": {"unschedulable": true}})).await;
        }
        cluster.delete("pods", "db-0", DeleteParams::default()).await;
        unschedulable(cluster, "db-0", "1 node(s) didn't match PersistentVolume's node affinity").await;
        cluster.merge("nodes", "node-2", json!({"spec": {"unschedulable": null}})).await;
        assert_eq!(running(cluster, "db-0").await, "node-2");
    });
}

#[test]
fn pods_are_scheduled_to_their_local_volumes_and_wait_for_one() {
    simulate(Setup::seed(66), async |cluster| {
        cluster.create(class("local", "kubernetes.io/no-provisioner", json!({}))).await;
        cluster.create(local_volume("disk-0", "local", "node-0")).await;
        cluster.create(local_volume("disk-1", "local", "node-1")).await;
        for name in ["a", "b", "c"] {
            cluster.create(claim(name, json!({"storageClassName": "local"}))).await;
            cluster.create(user_of(name, name)).await;
        }
        let both = async || {
            let all = cluster.list("pods", "default").await;
            all.iter().filter(|pod| pod["status"]["phase"] == "Running").count() == 2
        };
        cluster.wait_until("two of the pods run", both).await;
        let pods = cluster.list("pods", "default").await;
        let waiting = pods.iter().find(|pod| pod["status"]["phase"] == "Pending").unwrap();
        let waiting = waiting["metadata"]["name"].as_str().unwrap();
        unschedulable(cluster, waiting, &format!("0/3 nodes are available: 3 {NO_VOLUME}.")).await;
        assert_eq!(
            cluster.get("persistentvolumeclaims", "default", waiting).await.unwrap()["status"]["phase"],
            "Pending"
        );
        cluster.create(local_volume("disk-2", "local", "node-2")).await;
        assert_eq!(running(cluster, waiting).await, "node-2");
        for name in ["a", "b", "c"] {
            let claim = bound(cluster, name).await;
            let volume = claim["spec"]["volumeName"].as_str().unwrap();
            let node = running(cluster, name).await;
            assert_eq!(volume.strip_prefix("disk-"), node.strip_prefix("node-"), "{name} is with its volume");
        }
    });
}

#[test]
fn a_pod_with_an_unbindable_claim_stays_pending_and_reports_why() {
    simulate(Setup::seed(67), async |cluster| {
        let immediate = json!({"volumeBindingMode": "Immediate"});
        cluster.create(class("by-hand", "kubernetes.io/no-provisioner", immediate)).await;
        cluster.create(claim("data", json!({"storageClassName": "by-hand"}))).await;
        cluster.create(user_of("db", "data")).await;
        unschedulable(cluster, "db", "pod has unbound immediate PersistentVolumeClaims").await;
        cluster.create(local_volume("disk", "by-hand", "node-1")).await;
        assert_eq!(running(cluster, "db").await, "node-1");
        // Another pod with the claim is scheduled to the same node, or not at all.
        let mut elsewhere = user_of("elsewhere", "data");
        elsewhere["spec"]["nodeSelector"] = json!({HOST: "node-0"});
        cluster.create(elsewhere).await;
        unschedulable(cluster, "elsewhere", "1 node(s) didn't match PersistentVolume's node affinity").await;
    });
}

#[test]
fn a_restarted_scheduler_continues_a_volume_wait() {
    let setup = Setup::seed(68).panics();
    let metrics = setup.kubelets.metrics.clone();
    simulate(setup, async |cluster| {
        // The test acts as the provisioner.
        cluster.create(class("slow", "example.com/slow", json!({}))).await;
        cluster.create(claim("data", json!({"storageClassName": "slow"}))).await;
        cluster.create(user_of("db", "data")).await;
        let asked = |claim: &Value| {
            let annotations = &claim["metadata"]["annotations"];
            annotations["volume.kubernetes.io/selected-node"].is_string()
                && annotations["volume.kubernetes.io/storage-provisioner"] == "example.com/slow"
        };
        let waiting =
            cluster.wait_object("persistentvolumeclaims", "data", "a volume is asked for", asked).await;
        let node = waiting["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].as_str().unwrap();
        // The scheduler panics at this bind and places the pod afterwards: neither waits for the other pod's
        // volume.
        cluster.create(manifests::pod("quick", json!({}))).await;
        running(cluster, "quick").await;
        let mut page = String::new();
        metrics.render(&mut page);
        assert!(page.contains("kstore_component_restarts_total{component=\"scheduler\"} 1\n"), "{page}");
        tokio::time::sleep(Duration::from_secs(60)).await;
        let db = cluster.get("pods", "default", "db").await.unwrap();
        assert_eq!(db["spec"]["nodeName"], Value::Null);
        assert_eq!(db["status"]["nominatedNodeName"], node, "the status says where the pod will run");

        let mut volume = local_volume("made", "slow", node);
        let reference = json!({
            "namespace": "default", "name": "data", "uid": waiting["metadata"]["uid"],
            "kind": "PersistentVolumeClaim", "apiVersion": "v1",
        });
        volume["spec"]["claimRef"] = reference;
        cluster.create(volume).await;
        assert_eq!(running(cluster, "db").await, node);
        let db = cluster.get("pods", "default", "db").await.unwrap();
        assert_eq!(db["status"]["nominatedNodeName"], Value::Null, "the bind ends the nomination");
    });
}

#[test]
fn volume_provisioning_is_retried_after_a_ten_minute_timeout() {
    simulate(Setup::seed(69), async |cluster| {
        cluster.create(class("never", "example.com/never", json!({}))).await;
        cluster.create(claim("data", json!({"storageClassName": "never"}))).await;
        cluster.create(user_of("db", "data")).await;
        let why = "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded";
        let began = tokio::time::Instant::now();
        let failed = |pod: &Value| pod["status"]["conditions"][0]["message"] == why;
        let pod = cluster.wait_object("pods", "db", "its volume is given up", failed).await;
        // The first try may come a second later, if the scheduler has not seen the class yet.
        let waited = began.elapsed().as_secs();
        assert!((600..=601).contains(&waited), "{waited} s");
        assert_eq!(pod["status"]["conditions"][0]["reason"], "SchedulerError");
    });
}

#[test]
fn an_ephemeral_volume_claim_and_its_volume_are_deleted_with_their_pod() {
    simulate(Setup::seed(70), async |cluster| {
        let template = json!({
            "metadata": {"labels": {"of": "scratch"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        });
        let volumes = json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]);
        cluster.create(manifests::pod("worker", json!({"volumes": volumes}))).await;
        running(cluster, "worker").await;
        let claim = bound(cluster, "worker-scratch").await;
        assert_eq!(claim["metadata"]["labels"]["of"], "scratch");
        cluster.delete("pods", "worker", DeleteParams::default()).await;
        let gone = async || {
            cluster.list("persistentvolumeclaims", "default").await.is_empty()
                && volumes_left(cluster).await == 0
        };
        cluster.wait_until("claim and volume are deleted", gone).await;
    });
}

async fn volumes_left(cluster: &Cluster) -> usize {
    cluster.list("persistentvolumes", "").await.len()
}

#[test]
fn a_pod_with_a_node_name_waits_there_until_its_claim_is_bound() {
    simulate(Setup::seed(71), async |cluster| {
        cluster.create(claim("data", json!({"storageClassName": ""}))).await;
        let mut pod = user_of("placed", "data");
        pod["spec"]["nodeName"] = json!("node-0");
        cluster.create(pod).await;
        let why = "error processing PVC default/data: PVC is not bound";
        let has_event = async || {
            let events = cluster.list("events", "default").await;
            events.iter().any(|event| {
                event["reason"] == "FailedMount" && event["message"].as_str().unwrap().ends_with(why)
            })
        };
        cluster.wait_until("the kubelet reports the unbound claim", has_event).await;
        let pod = cluster.get("pods", "default", "placed").await.unwrap();
        assert_eq!(pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "ContainerCreating");
        cluster.create(local_volume("disk", "", "node-0")).await;
        running(cluster, "placed").await;
    });
}

fn attributes_class(name: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": name},
        "driverName": "disks.example.com", "parameters": {"iops": "4000"}})
}

#[test]
fn a_class_of_volume_attributes_is_deleted_after_the_claim_and_the_volume_that_name_it() {
    simulate(Setup::seed(71), async |cluster| {
        let classes = "volumeattributesclasses";
        let is_protected =
            |class: &Value| class["metadata"]["finalizers"] == json!(["kubernetes.io/vac-protection"]);
        for name in ["gold", "unused"] {
            cluster.create(attributes_class(name)).await;
            cluster.wait_object(classes, name, "it is protected", is_protected).await;
        }
        cluster.create(claim("data", json!({"volumeAttributesClassName": "gold"}))).await;
        cluster
            .create(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
                "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                    "csi": {"driver": "disks.example.com", "volumeHandle": "1"}, "storageClassName": "manual",
                    "volumeAttributesClassName": "gold"}}))
            .await;
        for name in ["gold", "unused"] {
            cluster.delete(classes, name, DeleteParams::default()).await;
        }
        let is_gone = async |name: &str| cluster.get(classes, "", name).await.is_none();
        cluster.wait_until("the unused class is deleted", async || is_gone("unused").await).await;

        let stays = async || {
            tokio::time::sleep(Duration::from_secs(60)).await;
            let class = cluster.get(classes, "", "gold").await.unwrap();
            assert!(is_protected(&class) && class["metadata"]["deletionTimestamp"].is_string(), "{class}");
        };
        stays().await;
        cluster.delete("persistentvolumeclaims", "data", DeleteParams::default()).await;
        stays().await;
        cluster.delete("persistentvolumes", "disk", DeleteParams::default()).await;
        cluster.wait_until("the class is deleted", async || is_gone("gold").await).await;
    });
}
