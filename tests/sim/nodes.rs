//! Pods on simulated nodes, from a client through apiserver, scheduler and nodes and back: waiting for
//! referenced objects, running commands, and terminating.

use kstore_client::DeleteParams;
use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Setup, simulate};
use serde_json::{Value, json};
use std::time::Duration;

fn pod(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
}

/// The state of the pod's only container.
fn state(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]["state"]
}

async fn wait_for(cluster: &Cluster, name: &str, what: &str, done: impl Fn(&Value) -> bool) {
    let done = async || cluster.get("pods", "default", name).await.is_some_and(|pod| done(&pod));
    cluster.wait_until(what, done).await;
}

/// Waits for an event about the pod with this reason and message.
async fn wait_for_event(cluster: &Cluster, name: &str, reason: &str, message: &str) {
    let has_event = async || {
        let events = cluster.list("events", "default").await;
        events.iter().any(|event| {
            event["involvedObject"]["name"] == name
                && event["reason"] == reason
                && event["message"] == message
        })
    };
    cluster.wait_until(&format!("the event {reason}: {message}"), has_event).await;
}

#[test]
fn a_gracefully_deleted_pod_is_terminating_until_its_containers_have_stopped() {
    simulate(Setup::seed(1), async |cluster| {
        let spec = json!({"terminationGracePeriodSeconds": 60, "containers": [{"name": "c", "image": "i"}]});
        cluster.create(pod("web", spec)).await;
        wait_for(cluster, "web", "the pod runs", |pod| pod["status"]["phase"] == "Running").await;
        let before = cluster.nondet().clock.now();
        cluster.delete("pods", "web", DeleteParams::default()).await;
        wait_for_event(cluster, "web", "Killing", "Stopping container c").await;
        let ending = cluster.get("pods", "default", "web").await.unwrap();
        assert!(ending["metadata"]["deletionTimestamp"].is_string());
        assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 60);
        assert_eq!(ending["metadata"]["generation"], 2);
        assert_eq!(ending["status"]["phase"], "Running");
        let gone = async || cluster.get("pods", "default", "web").await.is_none();
        cluster.wait_until("the pod is deleted", gone).await;
        let took = cluster.nondet().clock.now().duration_since(before).as_millis();
        assert!((300..1500).contains(&took), "{took} ms");
    });
}

#[test]
fn a_pod_waits_for_the_config_map_of_its_volume_and_the_secret_of_its_environment() {
    simulate(Setup::seed(2), async |cluster| {
        let spec = json!({
            "volumes": [{"name": "config", "configMap": {"name": "settings"}}],
            "containers": [{"name": "c", "image": "i",
                "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "a"}}}]}]
        });
        cluster.create(pod("web", spec)).await;
        let message = "MountVolume.SetUp failed for volume \"config\" : configmap \"settings\" not found";
        wait_for_event(cluster, "web", "FailedMount", message).await;
        let creating = |pod: &Value| state(pod)["waiting"]["reason"] == "ContainerCreating";
        wait_for(cluster, "web", "it waits for its volume", creating).await;

        let object =
            |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        cluster.create(object("ConfigMap", "settings")).await;
        let waits = |pod: &Value, message: &str| {
            let waiting = &state(pod)["waiting"];
            waiting["reason"] == "CreateContainerConfigError" && waiting["message"] == message
        };
        wait_for(cluster, "web", "it waits for the secret", |pod| waits(pod, "secret \"keys\" not found"))
            .await;
        wait_for_event(cluster, "web", "Failed", "Error: secret \"keys\" not found").await;
        cluster.create(object("Secret", "keys")).await;
        let missing = "couldn't find key a in Secret default/keys";
        wait_for(cluster, "web", "it waits for the key", |pod| waits(pod, missing)).await;
        cluster.merge("secrets", "keys", json!({"stringData": {"a": "b"}})).await;
        wait_for(cluster, "web", "it runs", |pod| pod["status"]["phase"] == "Running").await;
    });
}

#[test]
fn nodes_read_secrets_by_name_and_pods_start_soon_after_their_secret_exists() {
    simulate(Setup::seed(5), async |cluster| {
        let nodes = ("system:kstore:kubelet-sim", "system:nodes");
        for (verb, name, allowed) in [("get", "keys", true), ("list", "", false), ("watch", "", false)] {
            let asked = json!({"verb": verb, "resource": "secrets", "namespace": "default", "name": name});
            let review = json!({"spec": {"user": nodes.0, "groups": [nodes.1], "resourceAttributes": asked}});
            let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
            let answer = cluster.rest().call("POST", path, review.to_string()).await.json();
            assert_eq!(answer["status"]["allowed"], allowed, "{verb}: {answer}");
        }
        let listed = cluster.rest_as(UserInfo::new(nodes.0, [nodes.1]));
        assert_eq!(listed.call("GET", "/api/v1/secrets", "").await.code, 403);
        assert_eq!(listed.call("GET", "/api/v1/secrets?watch=1", "").await.code, 403);

        let env = json!([{"secretRef": {"name": "keys"}}]);
        let spec = json!({"containers": [{"name": "c", "image": "i", "envFrom": env}]});
        let waits = |pod: &Value| state(pod)["waiting"]["message"] == "secret \"keys\" not found";
        let runs = |pod: &Value| pod["status"]["phase"] == "Running";
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}});
        cluster.create(pod("first", spec.clone())).await;
        wait_for(cluster, "first", "it waits for the secret", waits).await;
        // Long enough for a node with growing retry delays to be far behind.
        tokio::time::sleep(Duration::from_secs(600)).await;
        let before = cluster.nondet().clock.now();
        cluster.create(secret.clone()).await;
        wait_for(cluster, "first", "it runs", runs).await;
        let took = cluster.nondet().clock.now().duration_since(before).as_millis();
        assert!(took <= 6_000, "{took} ms");

        // A deleted Secret starts no further pod, even if another pod on the nodes used it.
        cluster.delete("secrets", "keys", DeleteParams::default()).await;
        cluster.create(pod("second", spec)).await;
        wait_for(cluster, "second", "it waits for the secret", waits).await;
        cluster.create(secret).await;
        wait_for(cluster, "second", "it runs", runs).await;
    });
}

#[test]
fn a_node_served_by_another_user_gets_an_event_until_its_own_user_serves_it() {
    simulate(Setup::seed(6), async |cluster| {
        let refusal_events = async || {
            let events = cluster.list("events", "default").await;
            let of_node = events.into_iter().filter(|event| event["involvedObject"]["kind"] == "Node");
            of_node.filter(|event| event["reason"] == "TunnelRefused").collect::<Vec<_>>()
        };
        // The node's own user serves the nodes until then.
        cluster.create(pod("web", json!({"containers": [{"name": "c", "image": "i"}]}))).await;
        wait_for(cluster, "web", "it runs", |pod| pod["status"]["phase"] == "Running").await;
        assert!(refusal_events().await.is_empty());
        cluster.nodes().stop_node("node-1").await.unwrap();
        let claim = async || cluster.client().tunnel(vec!["node-1".to_owned()]).await.is_ok();
        cluster.wait_until("the node's own tunnel lets go of it", claim).await;
        let others = cluster.client().tunnel(vec!["node-1".to_owned()]).await.unwrap();
        cluster.nodes().resume_node("node-1").await.unwrap();
        cluster.wait_until("the refusal is an event", async || !refusal_events().await.is_empty()).await;
        // The process's other nodes stay reachable.
        let spec = json!({"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]});
        cluster.create(pod("beside", spec)).await;
        wait_for(cluster, "beside", "it runs", |pod| pod["status"]["phase"] == "Running").await;
        for _ in 0..20 {
            let path = "/api/v1/namespaces/default/pods/beside/log";
            let reply = cluster.rest().call("GET", path, "").await;
            assert_eq!(reply.code, 200, "{}", reply.text("/message"));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(refusal_events().await.iter().all(|event| event["involvedObject"]["name"] == "node-1"));
        let event = refusal_events().await.remove(0);
        assert_eq!((&event["involvedObject"]["name"], &event["type"]), (&json!("node-1"), &json!("Warning")));
        let message = event["message"].as_str().unwrap();
        assert!(message.contains("is served by a tunnel of user \"kubernetes-admin\" already"), "{message}");
        drop(others);
        let spec = json!({"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]});
        cluster.create(pod("on-it", spec)).await;
        wait_for(cluster, "on-it", "it runs", |pod| pod["status"]["phase"] == "Running").await;
        let logs = async || {
            let path = "/api/v1/namespaces/default/pods/on-it/log";
            cluster.rest().call("GET", path, "").await.code == 200
        };
        cluster.wait_until("the node is reached again", logs).await;
    });
}

#[test]
fn a_pod_whose_claim_does_not_exist_is_unschedulable_and_runs_once_it_does() {
    simulate(Setup::seed(3), async |cluster| {
        let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}});
        let spec = json!({"volumes": [volume], "containers": [{"name": "c", "image": "i"}]});
        cluster.create(pod("db", spec.clone())).await;
        let refused = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array();
            conditions.into_iter().flatten().any(|condition| {
                let message = condition["message"].as_str().unwrap_or_default();
                condition["reason"] == "Unschedulable"
                    && message.contains("persistentvolumeclaim \"data\" not found")
            })
        };
        wait_for(cluster, "db", "it is unschedulable", refused).await;
        // The scheduler ignores a pod with a node name; the kubelet waits for the claim.
        let mut placed = spec;
        placed["nodeName"] = json!("node-0");
        cluster.create(pod("placed", placed)).await;
        let why = "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], \
                   failed to process volumes=[data]: error processing PVC default/data: failed to fetch PVC from API \
                   server: persistentvolumeclaims \"data\" not found";
        wait_for_event(cluster, "placed", "FailedMount", why).await;
        let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"}, "spec": claim});
        cluster.create(claim).await;
        for name in ["db", "placed"] {
            wait_for(cluster, name, "it runs", |pod| pod["status"]["phase"] == "Running").await;
        }
    });
}

#[test]
fn a_container_runs_its_command_logs_its_output_and_exits_with_its_code() {
    simulate(Setup::seed(4), async |cluster| {
        let command = "echo $GREETING > /tmp/x; sleep 2; cat /tmp/x; echo bad >&2; exit 3";
        let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox",
            "args": ["sh", "-c", command], "env": [{"name": "GREETING", "value": "hi"}]}]});
        cluster.create(pod("run", spec)).await;
        wait_for(cluster, "run", "it has ended", |pod| pod["status"]["phase"] == "Failed").await;
        let ended = cluster.get("pods", "default", "run").await.unwrap();
        assert_eq!(state(&ended)["terminated"]["exitCode"], 3);
        let log = async |name: &str| {
            let path = format!("/api/v1/namespaces/default/pods/{name}/log");
            String::from_utf8(cluster.rest().call("GET", &path, "").await.body.to_vec()).unwrap()
        };
        assert_eq!(log("run").await, "hi\nbad\n");

        let spec = json!({"containers": [{"name": "c", "image": "app", "command": ["/app", "--serve"]}]});
        cluster.create(pod("app", spec)).await;
        wait_for(cluster, "app", "it runs", |pod| pod["status"]["phase"] == "Running").await;
        let why = "its command is not run: \"/app\" is not one of the simulated shell's commands";
        assert_eq!(log("app").await, format!("simulated container c started (image app); {why}\n"));
    });
}
