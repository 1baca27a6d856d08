//! Simulated nodes decide as kubelets do: which pods they admit and resize, which hooks, probes and restart rules of containers count,
//! and what containers leave to say.

use kstore_client::{DeleteParams, Patch};
use kstore_tests::{Cluster, Setup, simulate};
use serde_json::{Value, json};
use std::time::Duration;

fn pod(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
}

/// A pod whose container runs a command of the shell.
fn running(name: &str, script: &str, more: Value) -> Value {
    let mut container = json!({"name": "c", "image": "busybox", "command": ["sh", "-c", script]});
    let fields = container.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    pod(name, json!({"containers": [container]}))
}

fn container(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

fn condition<'a>(pod: &'a Value, type_: &str) -> Option<&'a Value> {
    pod["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True")
}

async fn get(cluster: &Cluster, name: &str) -> Value {
    cluster.get("pods", "default", name).await.unwrap()
}

async fn wait_for(cluster: &Cluster, name: &str, what: &str, done: impl Fn(&Value) -> bool) -> Value {
    let is_done = async || cluster.get("pods", "default", name).await.is_some_and(|pod| done(&pod));
    cluster.wait_until(what, is_done).await;
    get(cluster, name).await
}

/// The messages of the events of a pod with this reason.
async fn events(cluster: &Cluster, name: &str, reason: &str) -> Vec<String> {
    let events = cluster.list("events", "default").await.into_iter();
    let of_pod = events.filter(|event| event["involvedObject"]["name"] == name && event["reason"] == reason);
    of_pod.map(|event| event["message"].as_str().unwrap().to_owned()).collect()
}

async fn wait_for_event(cluster: &Cluster, name: &str, reason: &str) -> String {
    let is_there = async || !events(cluster, name, reason).await.is_empty();
    cluster.wait_until(&format!("the event {reason}"), is_there).await;
    events(cluster, name, reason).await.remove(0)
}

/// Deletes a pod; returns the seconds until it is gone.
async fn delete(cluster: &Cluster, name: &str, grace: u32) -> f64 {
    let before = cluster.nondet().clock.now();
    cluster.delete("pods", name, DeleteParams::default().grace(grace)).await;
    let gone = async || cluster.get("pods", "default", name).await.is_none();
    cluster.wait_until("the pod is gone", gone).await;
    cluster.nondet().clock.now().duration_since(before).as_secs_f64()
}

fn requesting(name: &str, cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu}});
    pod(
        name,
        json!({"nodeName": "node-0", "containers": [{"name": "c", "image": "i", "resources": resources}]}),
    )
}

#[test]
fn nodes_reject_pods_that_do_not_fit() {
    simulate(Setup::seed(501).nodes(2), async |cluster| {
        let port = json!([{"containerPort": 80, "hostPort": 8080}]);
        let on = |spec: Value| {
            let mut spec = spec;
            spec["nodeName"] = json!("node-0");
            spec
        };
        let plain = json!([{"name": "c", "image": "i"}]);
        let web = json!([{"name": "c", "image": "i", "ports": port}]);
        cluster.create(pod("first", on(json!({"containers": web})))).await;
        wait_for(cluster, "first", "it runs", is_ready).await;
        cluster.create(requesting("large", "100")).await;
        cluster.create(pod("ssd", on(json!({"containers": plain, "nodeSelector": {"disk": "ssd"}})))).await;
        cluster.create(pod("second", on(json!({"containers": web})))).await;
        let predicates = [
            (
                "large",
                "OutOfcpu",
                "Node didn't have enough resource: cpu, requested: 100000, used: 0, capacity: 8000",
            ),
            (
                "ssd",
                "NodeAffinity",
                "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
            ),
            (
                "second",
                "NodePorts",
                "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
            ),
        ];
        for (name, reason, why) in predicates {
            let failed =
                wait_for(cluster, name, "it is rejected", |pod| pod["status"]["phase"] == "Failed").await;
            assert_eq!(failed["status"]["reason"], reason);
            assert_eq!(failed["status"]["message"], format!("Pod was rejected: {why}"));
            assert_eq!(wait_for_event(cluster, name, reason).await, why);
        }
        delete(cluster, "first", 1).await;
        cluster.create(pod("third", on(json!({"containers": web})))).await;
        wait_for(cluster, "third", "the port is free", is_ready).await;
        let taints = json!({"spec": {"taints": [{"key": "down", "effect": "NoExecute"}]}});
        cluster.merge("nodes", "node-1", taints).await;
        let pod_there = json!({"nodeName": "node-1", "containers": plain});
        // Admission adds tolerations for two taints of its own; this one is none of them.
        let tainted = async || {
            let nodes = cluster.list("nodes", "").await;
            nodes.iter().any(|node| node["spec"]["taints"][0]["key"] == "down")
        };
        cluster.wait_until("the taint is there", tainted).await;
        cluster.create(pod("untolerated", pod_there)).await;
        let has_ended = async || {
            let pod = cluster.get("pods", "default", "untolerated").await;
            pod.is_none_or(|pod| pod["status"]["reason"] == "TaintToleration")
        };
        cluster.wait_until("the taint rejects or evicts it", has_ended).await;
    });
}

#[test]
fn a_resize_is_deferred_until_there_is_room() {
    simulate(Setup::seed(502).nodes(1), async |cluster| {
        cluster.create(requesting("a", "150m")).await;
        cluster.create(requesting("b", "7500m")).await;
        for name in ["a", "b"] {
            wait_for(cluster, name, "it runs", is_ready).await;
        }
        let patch = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}});
        cluster.resource("pods").patch("default", "a", "resize", &Patch::Strategic(patch)).await.unwrap();
        let deferred =
            wait_for(cluster, "a", "it is pending", |pod| condition(pod, "PodResizePending").is_some()).await;
        assert_eq!(condition(&deferred, "PodResizePending").unwrap()["reason"], "Deferred");
        assert_eq!(container(&deferred)["resources"]["requests"]["cpu"], "150m");
        assert!(wait_for_event(cluster, "a", "ResizeDeferred").await.starts_with("Pod resize Deferred: {"));
        delete(cluster, "b", 1).await;
        let done = |pod: &Value| container(pod)["resources"]["requests"]["cpu"] == "2";
        let resized = wait_for(cluster, "a", "it has its processors", done).await;
        assert_eq!(container(&resized)["allocatedResources"]["cpu"], "2");
        assert!(condition(&resized, "PodResizePending").is_none());
        wait_for_event(cluster, "a", "ResizeStarted").await;
        wait_for_event(cluster, "a", "ResizeCompleted").await;
    });
}

#[test]
fn hooks_before_the_end_count_against_the_grace_period() {
    simulate(Setup::seed(503), async |cluster| {
        let hook = |handler: Value| json!({"lifecycle": {"preStop": handler}});
        let ends = "trap exit TERM; sleep 1000 & wait";
        let sleep = |seconds: u64| hook(json!({"sleep": {"seconds": seconds}}));
        let script = "sleep 2; echo bye > /work/word";
        let mut shared =
            running("exec", "sleep 1000", hook(json!({"exec": {"command": ["sh", "-c", script]}})));
        shared["spec"]["volumes"] = json!([{"name": "work", "emptyDir": {}}]);
        shared["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "work", "mountPath": "/work"}]);
        let script = "until [ -f /work/word ]; do sleep 0.1; done; cat /work/word; sleep 1000";
        let reader = json!({"name": "reader", "image": "busybox", "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "work", "mountPath": "/work"}],
            "lifecycle": {"preStop": {"sleep": {"seconds": 4}}}});
        shared["spec"]["containers"].as_array_mut().unwrap().push(reader);
        cluster.create(running("short", ends, sleep(3))).await;
        cluster.create(running("long", ends, sleep(20))).await;
        cluster.create(running("fails", ends, hook(json!({"exec": {"command": ["false"]}})))).await;
        cluster.create(shared).await;
        for name in ["short", "long", "fails", "exec"] {
            wait_for(cluster, name, "it runs", is_ready).await;
        }
        let took = delete(cluster, "short", 10).await;
        assert!((3.0..4.5).contains(&took), "{took}");
        let took = delete(cluster, "long", 3).await;
        assert!((3.0..5.5).contains(&took), "{took}");
        let took = delete(cluster, "fails", 30).await;
        assert!((0.0..2.0).contains(&took), "{took}");
        assert_eq!(events(cluster, "fails", "FailedPreStopHook").await, ["PreStopHook failed"]);
        cluster.delete("pods", "exec", DeleteParams::default().grace(30)).await;
        let log = async || {
            let path = "/api/v1/namespaces/default/pods/exec/log?container=reader";
            String::from_utf8(cluster.rest().call("GET", path, "").await.body.to_vec()).unwrap() == "bye\n"
        };
        cluster.wait_until("the hook has written", log).await;
    });
}

#[test]
fn a_hook_after_the_start_and_commands_of_probes_see_the_files_of_the_container() {
    simulate(Setup::seed(504), async |cluster| {
        let hook = json!({"postStart": {"exec": {"command": ["sh", "-c", "sleep 2; touch /tmp/ready"]}}});
        let probe = json!({"exec": {"command": ["cat", "/tmp/ready"]}, "periodSeconds": 1});
        cluster
            .create(running("web", "sleep 1000", json!({"lifecycle": hook, "readinessProbe": probe})))
            .await;
        wait_for_event(cluster, "web", "Started").await;
        let before = get(cluster, "web").await;
        assert_eq!(before["status"]["phase"], "Pending", "{before}");
        wait_for(cluster, "web", "its probe passes", is_ready).await;
        let path = "/api/v1/namespaces/default/pods/web";
        assert!(events(cluster, "web", "FailedPostStartHook").await.is_empty(), "{path}");

        let script = "touch /tmp/healthy; sleep 5; rm /tmp/healthy; sleep 600";
        let probe =
            json!({"exec": {"command": ["cat", "/tmp/healthy"]}, "periodSeconds": 2, "failureThreshold": 1});
        cluster.create(running("live", script, json!({"livenessProbe": probe}))).await;
        wait_for(cluster, "live", "it restarts", |pod| container(pod)["restartCount"] == 1).await;
        let why = wait_for_event(cluster, "live", "Unhealthy").await;
        assert!(why.starts_with("Liveness probe failed: cat: "), "{why}");

        let hook = json!({"lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", "exit 3"]}}}});
        cluster.create(running("broken", "sleep 1000", hook)).await;
        assert_eq!(wait_for_event(cluster, "broken", "FailedPostStartHook").await, "PostStartHook failed");
        let waits = |pod: &Value| container(pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff";
        wait_for(cluster, "broken", "it is backed off", waits).await;
    });
}

#[test]
fn containers_leave_termination_messages() {
    simulate(Setup::seed(505), async |cluster| {
        let logs = json!({"terminationMessagePolicy": "FallbackToLogsOnError"});
        let many = "for i in $(seq 200); do echo line $i; done; exit 1";
        let cases = [
            ("logs", "echo last words; exit 3", logs.clone(), Some("last words\n")),
            ("file", "echo died >/dev/termination-log; exit 3", json!({}), Some("died\n")),
            ("both", "echo lost; echo kept >/dev/termination-log; exit 1", logs.clone(), Some("kept\n")),
            (
                "own-path",
                "echo there >/tmp/why; exit 0",
                json!({"terminationMessagePath": "/tmp/why"}),
                Some("there\n"),
            ),
            ("success", "echo fine", logs.clone(), None),
            ("silent", "echo unread; exit 1", json!({}), None),
        ];
        for (name, script, more, _) in &cases {
            let mut pod = running(name, script, more.clone());
            pod["spec"]["restartPolicy"] = json!("Never");
            cluster.create(pod).await;
        }
        let mut pod = running("many", many, logs);
        pod["spec"]["restartPolicy"] = json!("Never");
        cluster.create(pod).await;
        let ended = |pod: &Value| container(pod)["state"]["terminated"].is_object();
        for (name, _, _, message) in cases {
            let pod = wait_for(cluster, name, "it has ended", ended).await;
            let terminated = &container(&pod)["state"]["terminated"];
            assert_eq!(terminated["message"].as_str(), message, "{name}: {terminated}");
        }
        let pod = wait_for(cluster, "many", "it has ended", ended).await;
        let message = container(&pod)["state"]["terminated"]["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with("line 121\n") && message.ends_with("line 200\n"), "{message}");
        let killed = running("killed", "echo why > /dev/termination-log; sleep 1000", json!({}));
        cluster.create(killed).await;
        wait_for(cluster, "killed", "it runs", is_ready).await;
        let before = get(cluster, "killed").await;
        cluster.merge("pods", "killed", json!({"metadata": {"finalizers": ["example.com/keep"]}})).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.delete("pods", "killed", DeleteParams::default().grace(5)).await;
        let pod = wait_for(cluster, "killed", "it has ended", ended).await;
        assert_eq!(container(&pod)["state"]["terminated"]["message"], "why\n", "{before}");
        cluster.merge("pods", "killed", json!({"metadata": {"finalizers": null}})).await;
    });
}

#[test]
fn containers_restart_by_their_own_policies_and_rules() {
    simulate(Setup::seed(506), async |cluster| {
        cluster.create(running("never", "exit 1", json!({"restartPolicy": "Never"}))).await;
        let rule = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
        let rules = json!({"restartPolicy": "Never", "restartPolicyRules": rule});
        let mut pod = running("rule", "exit 42", rules);
        pod["spec"]["restartPolicy"] = json!("Never");
        cluster.create(pod).await;
        wait_for(cluster, "rule", "it restarts", |pod| container(pod)["restartCount"] == 1).await;
        let never =
            wait_for(cluster, "never", "it has ended", |pod| pod["status"]["phase"] == "Failed").await;
        assert_eq!(container(&never)["restartCount"], 0);
        assert_ne!(get(cluster, "rule").await["status"]["phase"], "Failed");
    });
}

#[test]
fn a_second_deletion_with_a_shorter_grace_period_takes_effect() {
    simulate(Setup::seed(507), async |cluster| {
        let mut zombie = pod(
            "zombie",
            json!({"terminationGracePeriodSeconds": 300, "containers": [{"name": "c", "image": "i"}]}),
        );
        zombie["metadata"]["annotations"] = json!({"kubelet-sim.kstore.io/stop": "ignore"});
        cluster.create(zombie).await;
        wait_for(cluster, "zombie", "it runs", is_ready).await;
        cluster.delete("pods", "zombie", DeleteParams::default()).await;
        wait_for_event(cluster, "zombie", "Killing").await;
        let took = delete(cluster, "zombie", 2).await;
        assert!((1.9..4.0).contains(&took), "{took}");
    });
}

#[test]
fn images_of_the_configuration_cannot_be_pulled() {
    let mut setup = Setup::seed(508);
    setup.kubelets.missing_images = vec!["*.example.com/*".to_owned(), "web:v2".to_owned()];
    simulate(setup, async |cluster| {
        let of = |name: &str, image: &str| pod(name, json!({"containers": [{"name": "c", "image": image}]}));
        cluster.create(of("fine", "web:v1")).await;
        cluster.create(of("missing", "web:v2")).await;
        cluster.create(of("elsewhere", "registry.example.com/a/b:1")).await;
        wait_for(cluster, "fine", "it runs", is_ready).await;
        for name in ["missing", "elsewhere"] {
            let waits = |pod: &Value| container(pod)["state"]["waiting"]["reason"] == "ImagePullBackOff";
            wait_for(cluster, name, "its image is missing", waits).await;
            let events = events(cluster, name, "Failed").await;
            assert!(events.iter().any(|message| message == "Error: ErrImagePull"), "{events:?}");
            assert!(events.iter().any(|message| message.ends_with(": not found")), "{events:?}");
        }
    });
}

#[test]
fn writers_are_warned_of_annotations_that_simulated_nodes_do_not_read() {
    simulate(Setup::seed(509), async |cluster| {
        let warnings = async |path: &str, object: Value| {
            let reply = cluster.rest().call("POST", path, object.to_string()).await;
            assert_eq!(reply.code, 201, "{}", reply.text("/message"));
            let all = reply.headers.get_all("warning").iter().map(|one| one.to_str().unwrap().to_owned());
            all.collect::<Vec<_>>()
        };
        let pods = "/api/v1/namespaces/default/pods";
        let mut annotated = running("p", "sleep 1", json!({}));
        annotated["metadata"]["annotations"] = json!({"kubelet-sim.kstore.io/cpu": "1"});
        assert_eq!(warnings(pods, annotated.clone()).await, [""; 0]);
        annotated["metadata"] =
            json!({"name": "q", "annotations": {"kubelet-sim.kstore.io/imagepull": "1s"}});
        let found = warnings(pods, annotated).await;
        assert!(found.len() == 1 && found[0].contains("did you mean \\\"image-pull\\\"?"), "{found:?}");
        let mut deployment = kstore_tests::manifests::deployment("d", 1);
        deployment["metadata"]["annotations"] = json!({"kubelet-sim.kstore.io/cpu": "1"});
        let found = warnings("/apis/apps/v1/namespaces/default/deployments", deployment).await;
        assert!(found[0].contains("put it into spec.template.metadata.annotations"), "{found:?}");
    });
}
