//! StatefulSets and DaemonSets as users observe them: order, claims, partitions, changing nodes, surge, undo.

use kstore_client::{DeleteParams, Patch, Propagation};
use kstore_kubelet_sim::behavior::Delay;
use kstore_tests::wait::is_ready;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::time::Duration;

/// Pods take five seconds to become ready, so that waiting for them is observable.
fn slow(seed: u64) -> Setup {
    let mut setup = Setup::seed(seed);
    setup.kubelets.delays.ready = Delay::Fixed(Duration::from_secs(5));
    setup
}

fn stateful_set(replicas: u32, more: Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "main", "image": "db:1"}]}},
        },
    });
    merge(&mut set["spec"], more);
    set
}

fn daemon_set(more: Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "main", "image": "agent:1"}]}},
        },
    });
    merge(&mut set["spec"], more);
    set
}

fn merge(into: &mut Value, more: Value) {
    for (key, value) in more.as_object().into_iter().flatten() {
        into[key] = value.clone();
    }
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

/// The pods of an app, sorted by name.
async fn pods(cluster: &Cluster, app: &str) -> Vec<Value> {
    let mut pods = cluster.list("pods", "default").await;
    pods.retain(|pod| pod["metadata"]["labels"]["app"] == app);
    pods
}

fn names(objects: &[Value]) -> Vec<&str> {
    objects.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect()
}

fn is_leaving(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

fn image_of(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["image"].as_str().unwrap()
}

/// Whether a StatefulSet without a partition is rolled out, as `kubectl rollout status` decides it.
fn is_rolled_out(set: &Value) -> bool {
    let (status, wanted) = (&set["status"], set["spec"]["replicas"].as_i64().unwrap());
    let is_all = |field: &str| status[field].as_i64().unwrap_or(0) == wanted;
    status["observedGeneration"] == set["metadata"]["generation"]
        && ["replicas", "readyReplicas", "updatedReplicas", "availableReplicas"].into_iter().all(is_all)
        && status["currentRevision"] == status["updateRevision"]
}

async fn wait_set(cluster: &Cluster) -> Value {
    cluster.wait_object("statefulsets", "db", "rolled out", is_rolled_out).await
}

/// Waits until a DaemonSet is rolled out on this many nodes, as `kubectl rollout status` decides it.
async fn wait_daemons(cluster: &Cluster, nodes: i64) -> Value {
    let is_done = |set: &Value| {
        let is_all = |field: &str| set["status"][field].as_i64().unwrap_or(0) == nodes;
        set["status"]["observedGeneration"] == set["metadata"]["generation"]
            && ["desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable"].into_iter().all(is_all)
    };
    cluster.wait_object("daemonsets", "agent", "rolled out", is_done).await
}

/// The patch of `kubectl rollout undo`: the data of a revision, as a strategic merge patch.
async fn undo(cluster: &Cluster, plural: &str, name: &str, number: i64) {
    let revisions = cluster.list("controllerrevisions", "default").await;
    let revision = revisions.iter().find(|revision| revision["revision"] == number).unwrap();
    let patch = Patch::Strategic(revision["data"].clone());
    cluster.resource(plural).patch("default", name, "", &patch).await.unwrap();
}

#[test]
fn a_stateful_set_scales_up_in_order_and_down_in_reverse() {
    simulate(slow(1), async |cluster| {
        cluster.create(stateful_set(3, json!({}))).await;
        let grown = async || {
            let pods = pods(cluster, "db").await;
            for (pod, next) in pods.iter().zip(pods.iter().skip(1)) {
                assert!(is_ready(pod), "{} before {}", next["metadata"]["name"], pod["metadata"]["name"]);
            }
            pods.len() == 3 && pods.iter().all(is_ready)
        };
        cluster.wait_until("three pods are ready", grown).await;
        let set = wait_set(cluster).await;
        let all = pods(cluster, "db").await;
        assert_eq!(names(&all), ["db-0", "db-1", "db-2"]);
        for (pod, index) in all.iter().zip(0..) {
            let labels = &pod["metadata"]["labels"];
            assert_eq!(labels["apps.kubernetes.io/pod-index"], json!(index.to_string()));
            assert_eq!(labels["statefulset.kubernetes.io/pod-name"], pod["metadata"]["name"]);
            assert_eq!(labels["controller-revision-hash"], set["status"]["updateRevision"]);
            assert_eq!(
                (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
                (&pod["metadata"]["name"], &json!("db"))
            );
        }
        cluster.merge("statefulsets", "db", json!({"spec": {"replicas": 1}})).await;
        let shrunk = async || {
            let pods = pods(cluster, "db").await;
            let leaving: Vec<_> = pods.iter().filter(|pod| is_leaving(pod)).cloned().collect();
            assert!(leaving.len() <= 1, "one after the other");
            assert!(
                leaving.is_empty() || is_leaving(pods.last().unwrap()),
                "the highest first: {:?}",
                names(&leaving)
            );
            pods.len() == 1
        };
        cluster.wait_until("one pod is left", shrunk).await;
        wait_set(cluster).await;
    });
}

#[test]
fn a_deleted_pod_is_recreated_under_its_name_and_a_parallel_set_does_not_wait() {
    simulate(slow(2), async |cluster| {
        cluster.create(stateful_set(3, json!({"podManagementPolicy": "Parallel"}))).await;
        let created = async || pods(cluster, "db").await.len() == 3;
        cluster.wait_until("all pods are there at once", created).await;
        assert!(pods(cluster, "db").await.iter().all(|pod| !is_ready(pod)));
        wait_set(cluster).await;
        let uid = cluster.get("pods", "default", "db-1").await.unwrap()["metadata"]["uid"].clone();
        cluster.delete("pods", "db-1", DeleteParams::default()).await;
        let is_new = |pod: &Value| pod["metadata"]["uid"] != uid && is_ready(pod);
        cluster.wait_object("pods", "db-1", "made anew", is_new).await;
    });
}

#[test]
fn an_update_stops_at_the_partition_and_an_undo_restores_the_old_template() {
    simulate(slow(3), async |cluster| {
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
        cluster.create(stateful_set(4, json!({"updateStrategy": strategy}))).await;
        wait_set(cluster).await;
        cluster.strategic("statefulsets", "db", image("db:2")).await;
        let is_partly = |set: &Value| {
            set["status"]["updatedReplicas"] == 2
                && set["status"]["readyReplicas"] == 4
                && set["status"]["currentReplicas"] == 2
        };
        cluster.wait_object("statefulsets", "db", "updated down to the partition", is_partly).await;
        let images = |pods: &[Value]| pods.iter().map(|pod| image_of(pod).to_owned()).collect::<Vec<_>>();
        assert_eq!(images(&pods(cluster, "db").await), ["db:1", "db:1", "db:2", "db:2"]);
        let open = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
        cluster.merge("statefulsets", "db", open).await;
        let seen = RefCell::new(vec![]);
        let done = async || {
            let pods = pods(cluster, "db").await;
            seen.borrow_mut()
                .extend(pods.iter().filter(|pod| is_leaving(pod)).map(|pod| pod["metadata"]["name"].clone()));
            is_rolled_out(&cluster.get("statefulsets", "default", "db").await.unwrap())
                && images(&pods) == ["db:2"; 4]
        };
        cluster.wait_until("the new image runs everywhere", done).await;
        seen.borrow_mut().dedup();
        assert_eq!(*seen.borrow(), ["db-1", "db-0"]);
        undo(cluster, "statefulsets", "db", 1).await;
        let done = async || images(&pods(cluster, "db").await) == ["db:1"; 4];
        cluster.wait_until("the old image runs everywhere", done).await;
        wait_set(cluster).await;
        let revisions = cluster.list("controllerrevisions", "default").await;
        let mut numbers: Vec<_> =
            revisions.iter().map(|revision| revision["revision"].as_i64().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [2, 3], "the first revision has a new number");
    });
}

#[test]
fn claims_are_created_before_pods_and_deleted_by_the_retention_policy() {
    simulate(slow(4), async |cluster| {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        let more = json!({
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}],
            "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Delete"},
        });
        cluster.create(stateful_set(2, more)).await;
        let made = async || {
            // In this order: a claim created in between would prove nothing.
            let pods = pods(cluster, "db").await.len();
            let claims = cluster.list("persistentvolumeclaims", "default").await.len();
            assert!(claims >= pods, "a pod before its claim");
            pods == 2
        };
        cluster.wait_until("both pods are there", made).await;
        wait_set(cluster).await;
        let claims = cluster.list("persistentvolumeclaims", "default").await;
        assert_eq!(names(&claims), ["data-db-0", "data-db-1"]);
        assert!(claims.iter().all(|claim| claim["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet"));
        cluster.merge("statefulsets", "db", json!({"spec": {"replicas": 1}})).await;
        let shrunk =
            async || names(&cluster.list("persistentvolumeclaims", "default").await) == ["data-db-0"];
        cluster.wait_until("the claim of the surplus pod is deleted", shrunk).await;
        assert_eq!(names(&pods(cluster, "db").await), ["db-0"]);
        cluster.merge("statefulsets", "db", json!({"spec": {"replicas": 2}})).await;
        wait_set(cluster).await;
        cluster
            .delete("statefulsets", "db", DeleteParams::default().propagation(Propagation::Background))
            .await;
        let gone = async || {
            pods(cluster, "db").await.is_empty()
                && cluster.list("persistentvolumeclaims", "default").await.is_empty()
                && cluster.list("controllerrevisions", "default").await.is_empty()
        };
        cluster.wait_until("nothing is left", gone).await;
    });
}

#[test]
fn an_orphaned_set_is_adopted_with_its_history() {
    simulate(Setup::seed(5), async |cluster| {
        cluster.create(stateful_set(2, json!({}))).await;
        wait_set(cluster).await;
        let before = pods(cluster, "db").await;
        let history = cluster.list("controllerrevisions", "default").await;
        cluster.delete("statefulsets", "db", DeleteParams::default().propagation(Propagation::Orphan)).await;
        let free = async || {
            let objects =
                [pods(cluster, "db").await, cluster.list("controllerrevisions", "default").await].concat();
            objects.iter().all(|object| object["metadata"]["ownerReferences"].is_null())
                && cluster.get("statefulsets", "default", "db").await.is_none()
        };
        cluster.wait_until("pods and history have no owner", free).await;
        let set = cluster.create(stateful_set(2, json!({}))).await;
        wait_set(cluster).await;
        let after = pods(cluster, "db").await;
        assert_eq!(
            before.iter().map(|p| &p["metadata"]["uid"]).collect::<Vec<_>>(),
            after.iter().map(|p| &p["metadata"]["uid"]).collect::<Vec<_>>()
        );
        let adopted = cluster.list("controllerrevisions", "default").await;
        assert_eq!(names(&adopted), names(&history));
        for object in after.iter().chain(&adopted) {
            assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], set["metadata"]["uid"]);
        }
    });
}

#[test]
fn a_daemon_set_reacts_to_nodes_and_taints() {
    simulate(Setup::seed(6).nodes(3), async |cluster| {
        cluster.create(daemon_set(json!({}))).await;
        wait_daemons(cluster, 3).await;
        let mut nodes: Vec<_> =
            pods(cluster, "agent").await.iter().map(|pod| pod["spec"]["nodeName"].clone()).collect();
        nodes.sort_by_key(Value::to_string);
        assert_eq!(nodes, ["node-0", "node-1", "node-2"]);
        // A cordoned node keeps its daemon pod; a deleted daemon pod is recreated.
        let cordon = json!({"spec": {"unschedulable": true}});
        cluster.resource("nodes").patch("", "node-0", "", &Patch::Merge(cordon)).await.unwrap();
        let daemon = |node: &'static str| async move {
            let pods = pods(cluster, "agent").await;
            pods.into_iter().find(|pod| pod["spec"]["nodeName"] == node && !is_leaving(pod))
        };
        let first = daemon("node-0").await.unwrap();
        cluster.delete("pods", first["metadata"]["name"].as_str().unwrap(), DeleteParams::default()).await;
        let back = async || {
            daemon("node-0")
                .await
                .is_some_and(|pod| is_ready(&pod) && pod["metadata"]["uid"] != first["metadata"]["uid"])
        };
        cluster.wait_until("the daemon of the cordoned node is back", back).await;
        let taint = |effect: &str| json!({"spec": {"taints": [{"key": "dedicated", "effect": effect}]}});
        cluster
            .resource("nodes")
            .patch("", "node-1", "", &Patch::Strategic(taint("NoExecute")))
            .await
            .unwrap();
        cluster.wait_until("the tainted node has no daemon", async || daemon("node-1").await.is_none()).await;
        wait_daemons(cluster, 2).await;
        let untaint = json!({"spec": {"taints": null}});
        cluster.resource("nodes").patch("", "node-1", "", &Patch::Merge(untaint)).await.unwrap();
        wait_daemons(cluster, 3).await;
        // A node label that the set selects.
        let only = json!({"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}});
        cluster.merge("daemonsets", "agent", only).await;
        wait_daemons(cluster, 0).await;
        cluster.wait_until("no daemon is left", async || pods(cluster, "agent").await.is_empty()).await;
        let label = json!({"metadata": {"labels": {"disk": "ssd"}}});
        cluster.resource("nodes").patch("", "node-2", "", &Patch::Merge(label)).await.unwrap();
        wait_daemons(cluster, 1).await;
        assert!(daemon("node-2").await.is_some());
    });
}

#[test]
fn a_copy_of_its_revision_that_a_client_makes_does_not_wake_the_controller() {
    simulate(Setup::seed(16), async |cluster| {
        cluster.create(daemon_set(json!({}))).await;
        wait_daemons(cluster, 3).await;
        let made = cluster.list("controllerrevisions", "default").await;
        let mut copy = made[0].clone();
        let meta = &made[0]["metadata"];
        copy["metadata"] = json!({"name": "agent-copy", "labels": meta["labels"], "ownerReferences": meta["ownerReferences"]});
        copy["revision"] = json!(2);
        cluster.create(copy).await;
        // Kubernetes' suite deletes the older one then: it must still be there.
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        assert_eq!(cluster.list("controllerrevisions", "default").await.len(), 2);
        cluster.delete("controllerrevisions", names(&made)[0], DeleteParams::default()).await;
        cluster.merge("daemonsets", "agent", image("agent:2")).await;
        let is_next = |pod: &Value| pod["spec"]["containers"][0]["image"] == "agent:2";
        let rolled = async || {
            let pods = pods(cluster, "agent").await;
            pods.len() == 3 && pods.iter().all(is_next)
        };
        cluster.wait_until("the next image runs everywhere", rolled).await;
    });
}

#[test]
fn a_daemon_set_rolls_with_surge_and_without_and_undoes() {
    simulate(slow(7).nodes(4), async |cluster| {
        cluster.create(daemon_set(json!({}))).await;
        wait_daemons(cluster, 4).await;
        cluster.strategic("daemonsets", "agent", image("agent:2")).await;
        let is_on = |pods: &[Value], wanted: &str| {
            pods.len() == 4 && pods.iter().all(|pod| image_of(pod) == wanted && is_ready(pod))
        };
        let fewest = RefCell::new(4);
        let done = async || {
            let pods = pods(cluster, "agent").await;
            let ready = pods.iter().filter(|pod| is_ready(pod) && !is_leaving(pod)).count();
            fewest.replace_with(|fewest| (*fewest).min(ready));
            is_on(&pods, "agent:2")
        };
        cluster.wait_until("the new image runs on every node", done).await;
        assert_eq!(fewest.into_inner(), 3, "one node after the other");
        let surge =
            json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "50%"}}}});
        cluster.merge("daemonsets", "agent", surge).await;
        undo(cluster, "daemonsets", "agent", 1).await;
        let most = RefCell::new(0);
        let done = async || {
            let pods = pods(cluster, "agent").await;
            let staying: Vec<_> = pods.iter().filter(|pod| !is_leaving(pod)).collect();
            assert!(staying.iter().filter(|pod| is_ready(pod)).count() >= 4, "no node is without");
            most.replace_with(|most| (*most).max(staying.len()));
            is_on(&pods, "agent:1")
        };
        cluster.wait_until("the old image runs on every node", done).await;
        assert_eq!(most.into_inner(), 6, "half of the nodes at once");
        let set = wait_daemons(cluster, 4).await;
        assert_eq!(set["metadata"]["annotations"]["deprecated.daemonset.template.generation"], "3");
        let revisions = cluster.list("controllerrevisions", "default").await;
        let mut numbers: Vec<_> =
            revisions.iter().map(|revision| revision["revision"].as_i64().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [2, 3]);
    });
}

#[test]
fn a_replication_controller_keeps_its_number_of_pods() {
    simulate(Setup::seed(8), async |cluster| {
        let template = json!({"metadata": {"labels": {"app": "rc"}}, "spec": {"containers": [{"name": "main", "image": "rc:1"}]}});
        let controller = cluster
            .create(json!({
                "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc"},
                "spec": {"replicas": 3, "selector": {"app": "rc"}, "template": template},
            }))
            .await;
        let has = async |replicas: i64| {
            let is_there = move |rc: &Value| {
                rc["status"]["observedGeneration"] == rc["metadata"]["generation"]
                    && rc["status"]["replicas"] == replicas
                    && rc["status"]["availableReplicas"].as_i64().unwrap_or(0) == replicas
            };
            cluster.wait_object("replicationcontrollers", "rc", "complete", is_there).await;
        };
        has(3).await;
        let all = pods(cluster, "rc").await;
        assert!(
            all.iter()
                .all(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == controller["metadata"]["uid"])
        );
        let first = all[0]["metadata"]["name"].as_str().unwrap();
        cluster.delete("pods", first, DeleteParams::default()).await;
        let replaced = async || {
            let pods = pods(cluster, "rc").await;
            pods.len() == 3 && !names(&pods).contains(&first)
        };
        cluster.wait_until("the deleted pod is replaced", replaced).await;
        cluster.merge("replicationcontrollers", "rc", json!({"spec": {"replicas": 1}})).await;
        has(1).await;
    });
}

#[test]
fn pods_that_are_too_large_for_one_call_together_are_created() {
    simulate(Setup::seed(11), async |cluster| {
        let mut deployment = manifests::deployment("large", 40);
        let note = json!({"note": "x".repeat(200_000)});
        deployment["spec"]["template"]["metadata"]["annotations"] = note;
        cluster.create(deployment).await;
        let all = |deployment: &Value| deployment["status"]["replicas"] == 40;
        cluster.wait_object("deployments", "large", "created", all).await;
        assert_eq!(pods(cluster, "large").await.len(), 40);
    });
}
