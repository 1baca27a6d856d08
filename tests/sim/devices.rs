//! Dynamic resource allocation end to end: pods get the devices of their claims, wait for them, share them, give them
//! back, and are evicted from devices with taints.

use kstore_api::version::Minor;
use kstore_client::DeleteParams;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::time::Duration;

const GROUP: &str = "resource.k8s.io/v1";

fn class() -> Value {
    let selector = json!({"cel": {"expression": "device.driver == 'gpu.example.com'"}});
    let config = json!({"opaque": {"driver": "gpu.example.com", "parameters": {"sharing": "none"}}});
    json!({"apiVersion": GROUP, "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"selectors": [selector], "config": [config]}})
}

/// The slice of a node with devices of these models.
fn slice(node: &str, models: &[&str]) -> Value {
    let device = |(n, model): (usize, &&str)| json!({"name": format!("gpu-{n}"), "attributes": {"model": {"string": model}}});
    let devices: Vec<Value> = models.iter().enumerate().map(device).collect();
    json!({"apiVersion": GROUP, "kind": "ResourceSlice", "metadata": {"name": format!("{node}-gpus")},
        "spec": {"driver": "gpu.example.com", "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}})
}

/// A spec of claims for a device of a model.
fn one_gpu(model: &str) -> Value {
    let text = format!("device.attributes['gpu.example.com'].model == '{model}'");
    let exactly = json!({"deviceClassName": "gpu", "selectors": [{"cel": {"expression": text}}]});
    json!({"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}})
}

fn claim(name: &str, model: &str) -> Value {
    json!({"apiVersion": GROUP, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": one_gpu(model)})
}

fn user_of(name: &str, source: Value) -> Value {
    let mut entry = source;
    entry["name"] = "gpu".into();
    manifests::pod(name, json!({"resourceClaims": [entry]}))
}

fn by_name(claim: &str) -> Value {
    json!({"resourceClaimName": claim})
}

async fn running(cluster: &Cluster, name: &str) -> String {
    let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
    let pod = cluster.wait_object("pods", name, "it runs", is_running).await;
    pod["spec"]["nodeName"].as_str().unwrap().to_owned()
}

/// The message about why a pod is not scheduled.
async fn refusal(cluster: &Cluster, name: &str) -> String {
    fn condition(pod: &Value) -> Option<&Value> {
        let conditions = pod["status"]["conditions"].as_array()?;
        conditions.iter().find(|one| one["type"] == "PodScheduled" && one["status"] == "False")
    }
    let pod = cluster.wait_object("pods", name, "it is refused", |pod| condition(pod).is_some()).await;
    condition(&pod).unwrap()["message"].as_str().unwrap().to_owned()
}

/// Driver, pool and device of the results of a claim.
async fn devices(cluster: &Cluster, claim: &str) -> Vec<String> {
    let claim = cluster.get("resourceclaims", "default", claim).await.unwrap();
    let results = claim["status"]["allocation"]["devices"]["results"].as_array().cloned().unwrap_or_default();
    let text = |result: &Value| {
        ["driver", "pool", "device"].map(|member| result[member].as_str().unwrap_or_default()).join("/")
    };
    results.iter().map(text).collect()
}

async fn first_node(cluster: &Cluster) -> String {
    let ready = |node: &Value| node["status"]["allocatable"]["cpu"].is_string();
    cluster.wait_until("a node exists", async || cluster.list("nodes", "").await.iter().any(ready)).await;
    cluster.list("nodes", "").await[0]["metadata"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn a_pod_gets_the_device_that_its_claim_selects_and_the_next_pod_waits_for_it() {
    simulate(Setup::seed(171), async |cluster| {
        let node = first_node(cluster).await;
        cluster.create(class()).await;
        cluster.create(slice(&node, &["small", "large"])).await;
        cluster.create(claim("first", "large")).await;
        cluster.create(claim("second", "large")).await;
        cluster.create(user_of("p", by_name("first"))).await;
        assert_eq!(running(cluster, "p").await, node);
        assert_eq!(devices(cluster, "first").await, [format!("gpu.example.com/{node}/gpu-1")]);
        let first = cluster.get("resourceclaims", "default", "first").await.unwrap();
        assert_eq!(first["metadata"]["finalizers"], json!(["resource.kubernetes.io/delete-protection"]));
        assert_eq!(first["status"]["reservedFor"][0]["name"], "p");
        let allocation = &first["status"]["allocation"];
        let selector = &allocation["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0];
        assert_eq!(*selector, json!({"key": "metadata.name", "operator": "In", "values": [node]}));
        assert_eq!(allocation["devices"]["config"][0]["source"], "FromClass");
        let bound = cluster.get("pods", "default", "p").await.unwrap();
        assert_ne!(bound["spec"]["nodeName"], Value::Null);

        cluster.create(user_of("q", by_name("second"))).await;
        let message = refusal(cluster, "q").await;
        assert!(message.contains("cannot allocate all claims. still not schedulable"), "{message}");
        assert_eq!(devices(cluster, "second").await, Vec::<String>::new());
        cluster.delete("pods", "p", DeleteParams::default()).await;
        assert_eq!(running(cluster, "q").await, node, "the device is free");
        assert_eq!(devices(cluster, "second").await, [format!("gpu.example.com/{node}/gpu-1")]);
        assert_eq!(devices(cluster, "first").await, Vec::<String>::new());
    });
}

#[test]
fn pods_share_a_claim_and_its_device_is_free_after_the_last_of_them() {
    simulate(Setup::seed(172), async |cluster| {
        let node = first_node(cluster).await;
        cluster.create(class()).await;
        cluster.create(slice(&node, &["small"])).await;
        cluster.create(claim("shared", "small")).await;
        for pod in ["p", "q", "r"] {
            cluster.create(user_of(pod, by_name("shared"))).await;
        }
        for pod in ["p", "q", "r"] {
            assert_eq!(running(cluster, pod).await, node);
        }
        let users = |claim: &Value| claim["status"]["reservedFor"].as_array().map_or(0, Vec::len);
        let shared = cluster.get("resourceclaims", "default", "shared").await.unwrap();
        assert_eq!(users(&shared), 3);
        for (pod, left) in [("p", 2), ("q", 1), ("r", 0)] {
            cluster.delete("pods", pod, DeleteParams::default()).await;
            cluster
                .wait_object("resourceclaims", "shared", "has less users", |claim| users(claim) == left)
                .await;
        }
        let is_free = |claim: &Value| claim["status"]["allocation"].is_null();
        cluster.wait_object("resourceclaims", "shared", "is free", is_free).await;
    });
}

#[test]
fn the_pods_of_a_deployment_get_devices_through_a_template_until_none_is_left() {
    simulate(Setup::seed(173), async |cluster| {
        let node = first_node(cluster).await;
        cluster.create(class()).await;
        cluster.create(slice(&node, &["small", "small", "large"])).await;
        let template = json!({"apiVersion": GROUP, "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one"}, "spec": {"spec": one_gpu("small")}});
        cluster.create(template).await;
        let mut deployment = manifests::deployment("train", 3);
        deployment["spec"]["template"]["spec"]["resourceClaims"] =
            json!([{"name": "gpu", "resourceClaimTemplateName": "one"}]);
        cluster.create(deployment).await;
        let is_ready = |deployment: &Value| deployment["status"]["readyReplicas"] == 2;
        cluster.wait_object("deployments", "train", "has two replicas", is_ready).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let mut held = Vec::new();
        for claim in cluster.list("resourceclaims", "default").await {
            held.extend(devices(cluster, claim["metadata"]["name"].as_str().unwrap()).await);
        }
        held.sort();
        let names = ["gpu-0", "gpu-1"].map(|name| format!("gpu.example.com/{node}/{name}"));
        assert_eq!(held, names, "each device has one claim, and the third pod has none");

        let mut more = slice(&node, &["small", "small", "large", "small"]);
        let version = cluster.get("resourceslices", "", &format!("{node}-gpus")).await.unwrap();
        more["metadata"] = version["metadata"].clone();
        cluster.resource("resourceslices").update(&more).await.unwrap();
        let is_ready = |deployment: &Value| deployment["status"]["readyReplicas"] == 3;
        cluster.wait_object("deployments", "train", "has three replicas", is_ready).await;
    });
}

#[test]
fn a_pod_that_a_user_bound_does_not_start_without_a_reserved_claim() {
    simulate(Setup::seed(174), async |cluster| {
        let node = first_node(cluster).await;
        cluster.create(claim("loose", "small")).await;
        let mut pod = user_of("p", by_name("loose"));
        pod["spec"]["nodeName"] = node.into();
        cluster.create(pod).await;
        let is_told = async || {
            let events = cluster.list("events", "default").await;
            events.iter().any(|event| {
                let text = event["message"].as_str().or(event["note"].as_str()).unwrap_or_default();
                event["reason"] == "FailedPrepareDynamicResources"
                    && text.contains("is not allowed to use ResourceClaim loose")
            })
        };
        cluster.wait_until("an event says why", is_told).await;
        let pod = cluster.get("pods", "default", "p").await.unwrap();
        assert_eq!(pod["status"]["phase"], "Pending");
    });
}

/// Replaces the taints of the only device of the node's slice.
async fn taint(cluster: &Cluster, node: &str, taints: Value) -> Value {
    let mut slice = cluster.get("resourceslices", "", &format!("{node}-gpus")).await.unwrap();
    slice["spec"]["devices"][0]["taints"] = taints;
    cluster.resource("resourceslices").update(&slice).await.unwrap()
}

/// Messages of the events about evictions from devices, of one pod.
async fn evictions(cluster: &Cluster, pod: &str) -> Vec<String> {
    let events = cluster.list("events", "default").await;
    let about = |event: &&Value| {
        let object =
            if event["regarding"].is_object() { &event["regarding"] } else { &event["involvedObject"] };
        event["reason"] == "DeviceTaintManagerEviction" && object["name"] == pod
    };
    let text =
        |event: &Value| event["message"].as_str().or(event["note"].as_str()).unwrap_or_default().to_owned();
    events.iter().filter(about).map(text).collect()
}

#[test]
fn a_no_execute_taint_of_a_device_evicts_the_pods_that_hold_it() {
    simulate(Setup::seed(175), async |cluster| {
        let node = first_node(cluster).await;
        cluster.create(class()).await;
        cluster.create(slice(&node, &["small"])).await;
        cluster.create(claim("first", "small")).await;
        cluster.create(user_of("p", by_name("first"))).await;
        cluster.create(manifests::pod("other", json!({}))).await;
        running(cluster, "p").await;
        running(cluster, "other").await;
        taint(cluster, &node, json!([{"key": "worn", "effect": "NoSchedule"}])).await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        running(cluster, "p").await;

        taint(cluster, &node, json!([{"key": "sick", "effect": "NoExecute"}])).await;
        let is_marked = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array().unwrap();
            conditions.iter().any(|condition| {
                condition["type"] == "DisruptionTarget"
                    && condition["status"] == "True"
                    && condition["reason"] == "DeletionByDeviceTaintManager"
                    && condition["message"] == "Device Taint manager: deleting due to NoExecute taint"
            })
        };
        cluster.wait_object("pods", "p", "it is marked", is_marked).await;
        let is_gone = async || cluster.get("pods", "default", "p").await.is_none();
        cluster.wait_until("it is deleted", is_gone).await;
        let is_free = |claim: &Value| claim["status"]["allocation"].is_null();
        cluster.wait_object("resourceclaims", "first", "is free", is_free).await;
        assert_eq!(evictions(cluster, "p").await, ["Marking for deletion"]);
        running(cluster, "other").await;
    });
}

#[test]
fn a_claim_tolerates_a_taint_of_its_device_for_a_time() {
    simulate(Setup::seed(176), async |cluster| {
        let node = first_node(cluster).await;
        cluster.create(class()).await;
        cluster.create(slice(&node, &["small"])).await;
        let mut patient = claim("patient", "small");
        patient["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] =
            json!([{"key": "sick", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]);
        cluster.create(patient).await;
        cluster.create(user_of("p", by_name("patient"))).await;
        running(cluster, "p").await;
        // The time counts from the taint on, not from the creation of the slice.
        tokio::time::sleep(Duration::from_secs(1_000)).await;
        let sick = || json!([{"key": "sick", "value": "hot", "effect": "NoExecute"}]);
        taint(cluster, &node, sick()).await;
        tokio::time::sleep(Duration::from_secs(200)).await;
        running(cluster, "p").await;
        taint(cluster, &node, json!([])).await;
        tokio::time::sleep(Duration::from_secs(300)).await;
        running(cluster, "p").await;
        assert_eq!(evictions(cluster, "p").await, ["Cancelling deletion"]);

        taint(cluster, &node, sick()).await;
        tokio::time::sleep(Duration::from_secs(290)).await;
        let pod = cluster.get("pods", "default", "p").await.unwrap();
        assert!(pod["metadata"]["deletionTimestamp"].is_null(), "{pod}");
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(cluster.get("pods", "default", "p").await, None);
        assert_eq!(evictions(cluster, "p").await, ["Cancelling deletion", "Marking for deletion"]);
    });
}

/// Writes a DeviceTaintRule for the devices of the driver.
async fn rule(cluster: &Cluster, effect: &str) -> Value {
    let path = "/apis/resource.k8s.io/v1/devicetaintrules";
    let rule = json!({"apiVersion": GROUP, "kind": "DeviceTaintRule", "metadata": {"name": "sick"},
        "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "sick", "effect": effect}}});
    let rest = cluster.rest();
    let created = rest.call("POST", path, rule.to_string()).await;
    if created.code == 201 {
        return created.json();
    }
    let mut stored = rest.call("GET", &format!("{path}/sick"), "").await.json();
    stored["spec"]["taint"]["effect"] = effect.into();
    let updated = rest.call("PUT", &format!("{path}/sick"), stored.to_string()).await;
    assert_eq!(updated.code, 200, "{}", updated.json());
    updated.json()
}

/// Waits for the condition of the rule with this reason.
async fn reported(cluster: &Cluster, reason: &str) -> Value {
    let read = async || {
        let path = "/apis/resource.k8s.io/v1/devicetaintrules/sick";
        cluster.rest().call("GET", path, "").await.json()["status"]["conditions"][0].clone()
    };
    cluster.wait_until("the rule has its condition", async || read().await["reason"] == reason).await;
    read().await
}

#[test]
fn a_device_taint_rule_keeps_pods_from_devices_and_evicts_those_that_hold_them() {
    simulate(Setup::seed(177), async |cluster| {
        let node = first_node(cluster).await;
        cluster.create(class()).await;
        cluster.create(slice(&node, &["small", "large"])).await;
        cluster.create(claim("first", "small")).await;
        cluster.create(claim("second", "large")).await;
        cluster.create(user_of("p", by_name("first"))).await;
        running(cluster, "p").await;

        let preview = rule(cluster, "None").await;
        assert_eq!(preview["metadata"]["generation"], 1);
        assert_eq!(preview["spec"]["taint"]["timeAdded"], preview["metadata"]["creationTimestamp"]);
        let condition = reported(cluster, "NoEffect").await;
        let text = condition["message"].as_str().unwrap();
        let begin = "2 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if";
        assert!(text.starts_with(begin), "{text}");

        tokio::time::sleep(Duration::from_secs(60)).await;
        let worn = rule(cluster, "NoSchedule").await;
        assert_eq!(worn["metadata"]["generation"], 2);
        assert_ne!(
            worn["spec"]["taint"]["timeAdded"], preview["spec"]["taint"]["timeAdded"],
            "the effect is new"
        );
        assert_eq!(reported(cluster, "OtherEffect").await["observedGeneration"], 2);
        cluster.create(user_of("q", by_name("second"))).await;
        let message = refusal(cluster, "q").await;
        assert!(message.contains("cannot allocate all claims"), "{message}");
        running(cluster, "p").await;

        rule(cluster, "NoExecute").await;
        let is_gone = async || cluster.get("pods", "default", "p").await.is_none();
        cluster.wait_until("it is evicted", is_gone).await;
        assert_eq!(evictions(cluster, "p").await, ["Marking for deletion"]);
        let done = reported(cluster, "Completed").await;
        assert_eq!(done["message"], "1 pod evicted since starting the controller.");
        assert_eq!((&done["status"], &done["observedGeneration"]), (&json!("False"), &json!(3)));

        let path = "/apis/resource.k8s.io/v1/devicetaintrules/sick";
        assert_eq!(cluster.rest().call("DELETE", path, "").await.code, 200);
        running(cluster, "q").await;
    });
}

#[test]
fn servers_before_1_37_have_no_device_taint_rules_and_allocate_devices_all_the_same() {
    simulate(Setup::seed(178).kubernetes(Minor::V36), async |cluster| {
        let node = first_node(cluster).await;
        let answer = cluster.rest().call("GET", "/apis/resource.k8s.io/v1/devicetaintrules", "").await;
        assert_eq!(answer.code, 404);
        cluster.create(class()).await;
        cluster.create(slice(&node, &["small"])).await;
        cluster.create(claim("first", "small")).await;
        cluster.create(user_of("p", by_name("first"))).await;
        running(cluster, "p").await;
        taint(cluster, &node, json!([{"key": "sick", "effect": "NoExecute"}])).await;
        let is_gone = async || cluster.get("pods", "default", "p").await.is_none();
        cluster.wait_until("it is deleted", is_gone).await;
    });
}
