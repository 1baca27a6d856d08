//! The work of all controllers together on the objects that a user creates: rollouts, garbage collection,
//! namespaces, services, scheduling and node failures.

use kstore_client::{DeleteParams, Patch, Propagation};
use kstore_tests::wait::{condition, is_ready, rolled_out};
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The pods of namespace `default` that are not being deleted.
async fn live_pods(cluster: &Cluster) -> Vec<Value> {
    let pods = cluster.list("pods", "default").await;
    pods.into_iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).collect()
}

async fn replica_sets(cluster: &Cluster) -> Vec<Value> {
    cluster.list("replicasets", "default").await
}

fn images(pods: &[Value]) -> Vec<&str> {
    pods.iter().filter_map(|pod| pod["spec"]["containers"][0]["image"].as_str()).collect()
}

async fn roll_out(cluster: &Cluster, replicas: u32) {
    cluster.create(manifests::deployment("web", replicas)).await;
    cluster.wait_rolled_out("web").await;
}

#[test]
fn a_deployment_becomes_a_replica_set_and_ready_pods_on_nodes() {
    simulate(Setup::seed(1), async |cluster| {
        roll_out(cluster, 3).await;
        let deployment = cluster.get("deployments", "default", "web").await.unwrap();
        assert_eq!(condition(&deployment, "Available").unwrap()["status"], "True");
        assert_eq!(condition(&deployment, "Progressing").unwrap()["reason"], "NewReplicaSetAvailable");
        // The controller's annotation is not a change that a user made.
        assert_eq!(deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
        let (generation, observed) =
            (&deployment["metadata"]["generation"], &deployment["status"]["observedGeneration"]);
        assert_eq!((generation, observed), (&json!(1), &json!(1)));
        let sets = replica_sets(cluster).await;
        assert_eq!(sets.len(), 1);
        assert_eq!(sets[0]["metadata"]["ownerReferences"][0]["uid"], deployment["metadata"]["uid"]);
        let pods = live_pods(cluster).await;
        assert_eq!(pods.len(), 3);
        for pod in &pods {
            assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], sets[0]["metadata"]["uid"]);
            assert_eq!(pod["status"]["phase"], "Running");
            assert!(is_ready(pod), "{pod}");
            assert!(pod["spec"]["nodeName"].is_string() && pod["status"]["podIP"].is_string(), "{pod}");
            assert!(pod["status"]["containerStatuses"][0]["state"]["running"].is_object(), "{pod}");
            assert_eq!(pod["status"]["qosClass"], "BestEffort");
        }
        let nodes: std::collections::BTreeSet<_> =
            pods.iter().map(|pod| pod["spec"]["nodeName"].to_string()).collect();
        assert_eq!(nodes.len(), 3, "pods spread over the nodes");
    });
}

#[test]
fn events_of_a_pod_are_in_order() {
    simulate(Setup::seed(16), async |cluster| {
        roll_out(cluster, 3).await;
        let pods = live_pods(cluster).await;
        for pod in &pods {
            let of_pod = async || {
                let mut events = cluster.list("events", "default").await;
                events.retain(|event| event["involvedObject"]["uid"] == pod["metadata"]["uid"]);
                events
            };
            cluster
                .wait_until("all events of the pod are recorded", async || of_pod().await.len() == 5)
                .await;
            let mut events = of_pod().await;
            let time = |event: &Value| event["eventTime"].as_str().unwrap().to_owned();
            assert!(events.iter().all(|event| time(event).len() == "2026-01-01T00:00:00.000000Z".len()));
            // Virtual time may stand still; then events of one component are ordered by name.
            let scheduled = events.iter().position(|event| event["reason"] == "Scheduled").unwrap();
            let scheduled = events.remove(scheduled);
            assert!(events.iter().all(|event| time(&scheduled) <= time(event)), "{scheduled}");
            events.sort_by_key(time);
            let reasons: Vec<_> = events.iter().map(|event| event["reason"].as_str().unwrap()).collect();
            assert_eq!(reasons, ["Pulling", "Pulled", "Created", "Started"]);
        }
    });
}

#[test]
fn scaling_adds_and_removes_pods() {
    simulate(Setup::seed(2), async |cluster| {
        roll_out(cluster, 2).await;
        for replicas in [5, 1, 0] {
            cluster.merge("deployments", "web", json!({ "spec": { "replicas": replicas } })).await;
            cluster.wait_rolled_out("web").await;
            let settled = async || cluster.list("pods", "default").await.len() == replicas;
            cluster.wait_until("as many pods are left as were wanted", settled).await;
        }
        assert_eq!(replica_sets(cluster).await.len(), 1);
    });
}

#[test]
fn a_rolling_update_keeps_the_configured_number_of_pods_available() {
    let mut setup = Setup::seed(3);
    // Containers take time to start, as in reality.
    setup.kubelets.delays.ready =
        kstore_kubelet_sim::behavior::Delay::Fixed(std::time::Duration::from_secs(5));
    simulate(setup, async |cluster| {
        roll_out(cluster, 4).await;
        cluster.strategic("deployments", "web", manifests::image("nginx:2")).await;
        // maxUnavailable and maxSurge are 25 % of four.
        let (fewest, most) = (std::cell::Cell::new(usize::MAX), std::cell::Cell::new(0));
        let done = async || {
            let pods = live_pods(cluster).await;
            fewest.set(fewest.get().min(pods.iter().filter(|pod| is_ready(pod)).count()));
            most.set(most.get().max(pods.len()));
            let deployment = cluster.get("deployments", "default", "web").await.unwrap();
            rolled_out(&deployment) && images(&pods).iter().all(|image| *image == "nginx:2")
        };
        cluster.wait_until("the new image runs everywhere", done).await;
        assert_eq!((fewest.get(), most.get()), (3, 5));
        let sets = replica_sets(cluster).await;
        let sizes: Vec<_> = sets.iter().map(|set| set["spec"]["replicas"].as_i64().unwrap()).collect();
        assert_eq!(sizes.iter().sum::<i64>(), 4);
        assert_eq!(sets.len(), 2, "the old ReplicaSet stays, empty, for an undo");
    });
}

#[test]
fn recreate_stops_all_old_pods_before_it_starts_new_ones() {
    simulate(Setup::seed(4), async |cluster| {
        let mut deployment = manifests::deployment("web", 3);
        deployment["spec"]["strategy"] = json!({ "type": "Recreate" });
        cluster.create(deployment).await;
        cluster.wait_rolled_out("web").await;
        cluster.strategic("deployments", "web", manifests::image("nginx:2")).await;
        let done = async || {
            let pods = cluster.list("pods", "default").await;
            let mut images = images(&pods);
            images.dedup();
            assert!(images.len() < 2, "two versions at once: {images:?}");
            images == ["nginx:2"] && pods.len() == 3 && pods.iter().all(is_ready)
        };
        cluster.wait_until("the new image runs everywhere", done).await;
    });
}

#[test]
fn an_undo_scales_the_old_replica_set_up_again() {
    simulate(Setup::seed(5), async |cluster| {
        roll_out(cluster, 2).await;
        let first = replica_sets(cluster).await.remove(0);
        let name = first["metadata"]["name"].as_str().unwrap();
        cluster.strategic("deployments", "web", manifests::image("nginx:2")).await;
        cluster.wait_rolled_out("web").await;
        // The patch of `kubectl rollout undo`: the template of the old revision, without the hash.
        let mut template = first["spec"]["template"].clone();
        template["metadata"]["labels"].as_object_mut().unwrap().remove("pod-template-hash");
        let patch = json!([{ "op": "replace", "path": "/spec/template", "value": template }]);
        cluster.resource("deployments").patch("default", "web", "", &Patch::Json(patch)).await.unwrap();
        cluster.wait_rolled_out("web").await;
        let again = cluster.get("replicasets", "default", name).await.unwrap();
        assert_eq!(again["spec"]["replicas"], 2);
        assert_eq!(again["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
        assert_eq!(replica_sets(cluster).await.len(), 2);
    });
}

#[test]
fn background_deletion_deletes_the_owner_first_and_then_its_dependents() {
    simulate(Setup::seed(6), async |cluster| {
        roll_out(cluster, 2).await;
        cluster.delete("deployments", "web", DeleteParams::default()).await;
        assert_eq!(cluster.get("deployments", "default", "web").await, None);
        let gone = async || {
            replica_sets(cluster).await.is_empty() && cluster.list("pods", "default").await.is_empty()
        };
        cluster.wait_until("nothing is left", gone).await;
    });
}

#[test]
fn foreground_deletion_keeps_the_owner_until_its_dependents_are_deleted() {
    simulate(Setup::seed(7), async |cluster| {
        roll_out(cluster, 2).await;
        let params = DeleteParams::default().propagation(Propagation::Foreground);
        cluster.delete("deployments", "web", params).await;
        let deleting = cluster.get("deployments", "default", "web").await.unwrap();
        assert_eq!(deleting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
        let gone = async || {
            // The owner first: what is left after it has gone was left behind.
            let owner = cluster.get("deployments", "default", "web").await;
            let left = replica_sets(cluster).await.len() + cluster.list("pods", "default").await.len();
            assert!(owner.is_some() || left == 0, "the owner was deleted before its dependents");
            owner.is_none()
        };
        cluster.wait_until("the owner is deleted", gone).await;
    });
}

#[test]
fn orphaning_deletion_leaves_dependents_without_an_owner() {
    simulate(Setup::seed(8), async |cluster| {
        roll_out(cluster, 2).await;
        cluster.delete("deployments", "web", DeleteParams::default().propagation(Propagation::Orphan)).await;
        let gone = async || cluster.get("deployments", "default", "web").await.is_none();
        cluster.wait_until("the owner is deleted", gone).await;
        let sets = replica_sets(cluster).await;
        assert_eq!(sets.len(), 1);
        assert!(sets[0]["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty), "{}", sets[0]);
        assert_eq!(live_pods(cluster).await.len(), 2);
        // A new Deployment adopts the ReplicaSet instead of creating another.
        let heir = cluster.create(manifests::deployment("web", 2)).await;
        cluster.wait_rolled_out("web").await;
        let sets = replica_sets(cluster).await;
        assert_eq!(sets.len(), 1);
        assert_eq!(sets[0]["metadata"]["ownerReferences"][0]["uid"], heir["metadata"]["uid"]);
    });
}

#[test]
fn a_deleted_pod_is_replaced_and_ends_gracefully() {
    let mut setup = Setup::seed(9);
    setup.kubelets.delays.stop =
        kstore_kubelet_sim::behavior::Delay::Fixed(std::time::Duration::from_secs(3));
    simulate(setup, async |cluster| {
        roll_out(cluster, 1).await;
        let pod = live_pods(cluster).await.remove(0);
        let name = pod["metadata"]["name"].as_str().unwrap();
        let before = cluster.nondet().clock.now();
        cluster.delete("pods", name, DeleteParams::default()).await;
        let ending = cluster.get("pods", "default", name).await.unwrap();
        assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 30);
        let gone = async || cluster.get("pods", "default", name).await.is_none();
        cluster.wait_until("the pod is deleted", gone).await;
        let took = cluster.nondet().clock.now().duration_since(before).as_secs();
        assert!((3..30).contains(&took), "it took {took} s");
        cluster.wait_rolled_out("web").await;
    });
}

#[test]
fn deleting_a_namespace_deletes_its_objects_and_admits_no_new_ones() {
    simulate(Setup::seed(10), async |cluster| {
        cluster.create(manifests::namespace("shop")).await;
        for mut object in [manifests::deployment("web", 2), manifests::config_map("settings", "1")] {
            object["metadata"]["namespace"] = json!("shop");
            cluster.create(object).await;
        }
        let ready = async || {
            let pods = cluster.list("pods", "shop").await;
            pods.len() == 2 && pods.iter().all(is_ready)
        };
        cluster.wait_until("the pods in it are ready", ready).await;
        let has_events = async || cluster.list("events", "shop").await.len() > 5;
        cluster.wait_until("events are recorded", has_events).await;
        cluster.resource("namespaces").delete("", "shop", &DeleteParams::default()).await.unwrap();
        let mut late = manifests::config_map("late", "1");
        late["metadata"]["namespace"] = json!("shop");
        let refused = cluster.try_create(late).await.unwrap_err();
        assert!(refused.is_namespace_terminating() || refused.is_not_found(), "{refused}");
        let gone = async || cluster.get("namespaces", "", "shop").await.is_none();
        cluster.wait_until("the namespace is deleted", gone).await;
        let all =
            ["deployments", "replicasets", "pods", "configmaps", "secrets", "serviceaccounts", "events"];
        for plural in all {
            assert_eq!(cluster.list(plural, "shop").await, Vec::<Value>::new(), "{plural}");
        }
    });
}

/// Requests with this verb and resource that were answered with one of the codes.
async fn answered(cluster: &Cluster, verb: &str, resource: &str, codes: &[&str]) -> u64 {
    let page = cluster.rest().call("GET", "/metrics", "").await;
    let page = String::from_utf8(page.body.to_vec()).unwrap();
    let begin = format!(
        "apiserver_request_total{{verb=\"{verb}\",group=\"\",version=\"v1\",resource=\"{resource}\","
    );
    let lines = page.lines().filter(|line| line.starts_with(&begin));
    let lines = lines.filter(|line| codes.iter().any(|code| line.contains(&format!("code=\"{code}\""))));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn a_full_namespace_is_deleted_with_few_refused_events_and_one_deletion_of_all_pods() {
    const PODS: u32 = 60;
    simulate(Setup::seed(12), async |cluster| {
        cluster.create(manifests::namespace("shop")).await;
        let mut web = manifests::deployment("web", PODS);
        web["metadata"]["namespace"] = json!("shop");
        cluster.create(web).await;
        let ready = async || {
            let pods = cluster.list("pods", "shop").await;
            pods.len() == PODS as usize && pods.iter().all(is_ready)
        };
        cluster.wait_until("the pods in it are ready", ready).await;
        cluster.resource("namespaces").delete("", "shop", &DeleteParams::default()).await.unwrap();
        let gone = async || cluster.get("namespaces", "", "shop").await.is_none();
        cluster.wait_until("the namespace is deleted", gone).await;
        // The kubelet's recorder has an event for each pod.
        let refused = answered(cluster, "POST", "events", &["403", "404"]).await;
        assert!(refused <= u64::from(PODS / 4), "{refused} refused events");
        // Only the kubelet deletes pods one by one.
        let single = answered(cluster, "DELETE", "pods", &["200"]).await;
        assert_eq!(single, u64::from(PODS));
        let history = cluster.history();
        let pods = history.iter().filter(|change| change.key.starts_with("/registry/pods/shop/"));
        let mut shown = BTreeMap::<&str, Vec<Value>>::new();
        for change in pods {
            let state =
                change.value.as_ref().map_or(Value::Null, |value| serde_json::from_slice(value).unwrap());
            shown.entry(&change.key).or_default().push(state);
        }
        for (key, states) in shown {
            let [.., terminating, ended, last, Value::Null] = &states[..] else {
                panic!("{key}: {states:?}")
            };
            assert_eq!(last["metadata"]["deletionGracePeriodSeconds"], 0, "{key}");
            assert!(terminating["metadata"]["deletionTimestamp"].is_string(), "{key}");
            let containers = |pod: &Value| pod["status"]["containerStatuses"].as_array().unwrap().clone();
            assert!(containers(terminating).iter().all(|one| one["state"]["running"].is_object()), "{key}");
            assert!(containers(ended).iter().all(|one| one["state"]["terminated"].is_object()), "{key}");
        }
    });
}

#[test]
fn every_namespace_gets_a_service_account_and_the_certificate_of_the_api() {
    simulate(Setup::seed(11), async |cluster| {
        cluster.create(manifests::namespace("shop")).await;
        for namespace in ["default", "kube-system", "shop"] {
            let there = async || {
                let account = cluster.get("serviceaccounts", namespace, "default").await;
                account.is_some() && cluster.get("configmaps", namespace, "kube-root-ca.crt").await.is_some()
            };
            cluster.wait_until(&format!("{namespace} is furnished"), there).await;
        }
        cluster.delete("serviceaccounts", "default", DeleteParams::default()).await;
        let back = async || cluster.get("serviceaccounts", "default", "default").await.is_some();
        cluster.wait_until("a deleted account is recreated", back).await;
        cluster.create(manifests::pod("one", json!({}))).await;
        let pod = cluster.wait_ready("one").await;
        assert_eq!(pod["spec"]["serviceAccountName"], "default");
    });
}

/// A cache that a controller requests after the others have started does not disturb their streams.
#[test]
fn no_informer_lists_again_while_a_cluster_starts() {
    let setup = Setup::seed(11);
    let metrics = setup.kubelets.metrics.clone();
    simulate(setup, async |cluster| {
        let page = || {
            let mut page = String::new();
            metrics.render(&mut page);
            page
        };
        // The controller of this kind asks first whether the server has it.
        let late = "informer_synced{name=\"storageversionmigrations\"} 1";
        cluster.wait_until("the last cache has synced", async || page().contains(late)).await;
        roll_out(cluster, 3).await;
        let page = page();
        let errors = page.lines().filter(|line| line.starts_with("reflector_errors_total{"));
        assert!(errors.clone().count() > 40, "all loops show their informers");
        assert_eq!(errors.filter(|line| !line.ends_with(" 0")).collect::<Vec<_>>(), [""; 0]);
    });
}

#[test]
fn the_api_is_a_service_from_the_start() {
    simulate(Setup::api_alone(), async |cluster| {
        let service = cluster.get("services", "default", "kubernetes").await.unwrap();
        assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
        assert_eq!(service["spec"]["ports"][0]["port"], 443);
        let namespaces = cluster.list("namespaces", "").await;
        let names: Vec<_> = namespaces.iter().map(|ns| ns["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    });
}

#[test]
fn a_service_gets_an_address_and_the_addresses_of_its_pods() {
    simulate(Setup::seed(12), async |cluster| {
        roll_out(cluster, 2).await;
        let service = cluster
            .create(json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": { "name": "web" },
                "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": 8080 }] },
            }))
            .await;
        assert!(service["spec"]["clusterIP"].as_str().unwrap().starts_with("10."), "{service}");
        let complete = async || {
            let slices = cluster.list("endpointslices", "default").await;
            let of_web = |slice: &&Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "web";
            let endpoints =
                slices.iter().filter(of_web).flat_map(|slice| slice["endpoints"].as_array().cloned());
            endpoints.flatten().filter(|endpoint| endpoint["conditions"]["ready"] == true).count() == 2
        };
        cluster.wait_until("both pods are endpoints", complete).await;
    });
}

/// The message of the condition that keeps a pod pending.
async fn refusal(cluster: &Cluster, pod: Value) -> String {
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.create(pod).await;
    let is_refused =
        |pod: &Value| condition(pod, "PodScheduled").is_some_and(|c| c["reason"] == "Unschedulable");
    let pod = cluster.wait_object("pods", &name, "is refused", is_refused).await;
    assert_eq!(pod["status"]["phase"], "Pending");
    condition(&pod, "PodScheduled").unwrap()["message"].as_str().unwrap().to_owned()
}

#[test]
fn an_unschedulable_pod_reports_why_and_is_retried_on_changes() {
    simulate(Setup::seed(13).nodes(2), async |cluster| {
        cluster
            .wait_until(
                "both nodes are ready, and the controller has removed the taint of nodes that are not",
                async || {
                    let nodes = cluster.list("nodes", "").await;
                    nodes.iter().filter(|node| is_ready(node) && node["spec"]["taints"].is_null()).count()
                        == 2
                },
            )
            .await;
        let large = json!({ "containers": [{ "name": "main", "image": "a", "resources": { "requests": { "cpu": "100" } } }] });
        let message = refusal(cluster, manifests::pod("large", large)).await;
        assert!(message.starts_with("0/2 nodes are available: 2 Insufficient cpu."), "{message}");

        let elsewhere = json!({ "nodeSelector": { "disk": "fast" } });
        let message = refusal(cluster, manifests::pod("elsewhere", elsewhere)).await;
        assert!(message.contains("2 node(s) didn't match Pod's node affinity/selector"), "{message}");
        let label = Patch::Merge(json!({ "metadata": { "labels": { "disk": "fast" } } }));
        cluster.resource("nodes").patch("", "node-1", "", &label).await.unwrap();
        let pod = cluster.wait_ready("elsewhere").await;
        assert_eq!(pod["spec"]["nodeName"], "node-1");

        let taint = Patch::Merge(
            json!({ "spec": { "taints": [{ "key": "team", "value": "a", "effect": "NoSchedule" }] } }),
        );
        for node in ["node-0", "node-1"] {
            cluster.resource("nodes").patch("", node, "", &taint).await.unwrap();
        }
        let message = refusal(cluster, manifests::pod("outsider", json!({}))).await;
        assert!(message.contains("2 node(s) had untolerated taint"), "{message}");
        let tolerant = json!({ "tolerations": [{ "key": "team", "operator": "Exists" }] });
        cluster.create(manifests::pod("insider", tolerant)).await;
        cluster.wait_ready("insider").await;
        let none = Patch::Merge(json!({ "spec": { "taints": null } }));
        cluster.resource("nodes").patch("", "node-0", "", &none).await.unwrap();
        let pod = cluster.wait_ready("outsider").await;
        assert_eq!(pod["spec"]["nodeName"], "node-0");
    });
}

#[test]
fn a_pod_waits_for_the_first_node() {
    simulate(Setup::seed(14).nodes(0), async |cluster| {
        let message = refusal(cluster, manifests::pod("early", json!({}))).await;
        assert!(message.starts_with("no nodes available to schedule pods"), "{message}");
    });
}

#[test]
fn a_silent_node_is_tainted_and_drained_with_kubernetes_timeouts() {
    simulate(Setup::seed(15), async |cluster| {
        roll_out(cluster, 3).await;
        let stopped = cluster.nondet().clock.now();
        cluster.nodes().stop_node("node-2").await.unwrap();
        let unknown = async || {
            let node = cluster.get("nodes", "", "node-2").await.unwrap();
            condition(&node, "Ready").unwrap()["status"] == "Unknown"
        };
        cluster.wait_until("the node's state is unknown", unknown).await;
        let seconds = |from| cluster.nondet().clock.now().duration_since(from).as_secs();
        assert!((30..=60).contains(&seconds(stopped)), "unknown after {} s", seconds(stopped));
        let tainted = cluster.nondet().clock.now();
        let evicted = async || live_pods(cluster).await.iter().all(|pod| pod["spec"]["nodeName"] != "node-2");
        cluster.wait_until("its pods are evicted", evicted).await;
        assert!((290..=330).contains(&seconds(tainted)), "evicted after {} s", seconds(tainted));
        cluster.wait_rolled_out("web").await;
        cluster.nodes().resume_node("node-2").await.unwrap();
        let back = async || {
            let node = cluster.get("nodes", "", "node-2").await.unwrap();
            is_ready(&node) && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty)
        };
        cluster.wait_until("the node is back", back).await;
    });
}
