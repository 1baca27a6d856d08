//! Devices as extended resources end to end: pods request a number of a resource, and a class has devices for it.

use kstore_client::DeleteParams;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::time::Duration;

const GPU: &str = "example.com/gpu";
const OF_CLASS: &str = "deviceclass.resource.kubernetes.io/gpu";

async fn first_node(cluster: &Cluster) -> String {
    let ready = |node: &Value| node["status"]["allocatable"]["cpu"].is_string();
    cluster.wait_until("a node exists", async || cluster.list("nodes", "").await.iter().any(ready)).await;
    cluster.list("nodes", "").await[0]["metadata"]["name"].as_str().unwrap().to_owned()
}

/// The class `gpu` for [`GPU`], and a slice of this number of devices on the only node.
async fn with_devices(cluster: &Cluster, count: usize) -> String {
    let node = first_node(cluster).await;
    let selector = json!({"cel": {"expression": "device.driver == 'gpu.example.com'"}});
    cluster
        .create(
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
            "spec": {"selectors": [selector], "extendedResourceName": GPU}}),
        )
        .await;
    let devices: Vec<Value> = (0..count).map(|n| json!({"name": format!("gpu-{n}")})).collect();
    cluster
        .create(
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "gpus"},
            "spec": {"driver": "gpu.example.com", "nodeName": node, "devices": devices,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}}),
        )
        .await;
    node
}

fn asking(name: &str, resource: &str, count: usize) -> Value {
    let limits = json!({ resource: count.to_string() });
    let container = json!({"name": "c", "image": "busybox", "resources": {"limits": limits}});
    manifests::pod(name, json!({"containers": [container]}))
}

async fn wait_deleted(cluster: &Cluster, plural: &str, name: &str) {
    let is_gone = async || cluster.get(plural, "default", name).await.is_none();
    cluster.wait_until(&format!("{plural}/{name} is deleted"), is_gone).await;
}

async fn running(cluster: &Cluster, name: &str) -> Value {
    cluster.wait_object("pods", name, "it runs", |pod| pod["status"]["phase"] == "Running").await
}

/// The message about why a pod has no node, once it contains `text`.
async fn refused(cluster: &Cluster, name: &str, text: &str) {
    let says = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let of_scheduler = conditions.iter().filter(|one| one["type"] == "PodScheduled");
        of_scheduler.filter_map(|one| one["message"].as_str()).any(|message| message.contains(text))
    };
    cluster.wait_object("pods", name, text, says).await;
}

/// The name of the claim in the status of a pod.
fn claim_of(pod: &Value) -> String {
    pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"].as_str().unwrap().to_owned()
}

#[test]
fn a_pod_gets_devices_for_its_extended_resource_through_a_claim_of_its_own() {
    simulate(Setup::seed(181), async |cluster| {
        let node = with_devices(cluster, 3).await;
        let created = cluster.create(asking("p", GPU, 2)).await;
        let pod = running(cluster, "p").await;
        let name = claim_of(&pod);
        assert!(name.starts_with("p-extended-resources-"), "{name}");
        let mapping =
            json!({"containerName": "c", "resourceName": GPU, "requestName": "container-0-request-0"});
        assert_eq!(pod["status"]["extendedResourceClaimStatus"]["requestMappings"], json!([mapping]));

        let claim = cluster.get("resourceclaims", "default", &name).await.unwrap();
        let metadata = &claim["metadata"];
        assert_eq!(metadata["generateName"], "p-extended-resources-");
        assert_eq!(
            metadata["annotations"],
            json!({"resource.kubernetes.io/extended-resource-claim": "true"})
        );
        assert_eq!(metadata["finalizers"], json!(["resource.kubernetes.io/delete-protection"]));
        let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": created["metadata"]["uid"],
            "controller": true}]);
        assert_eq!(metadata["ownerReferences"], owner);
        let request = json!([{"name": "container-0-request-0",
            "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}}]);
        assert_eq!(claim["spec"]["devices"]["requests"], request);
        assert_eq!(claim["status"]["reservedFor"][0]["uid"], created["metadata"]["uid"]);
        let results = claim["status"]["allocation"]["devices"]["results"].as_array().unwrap();
        let devices: Vec<&str> = results.iter().map(|one| one["device"].as_str().unwrap()).collect();
        assert_eq!(devices, ["gpu-0", "gpu-1"]);

        // A pod may name the class instead of the resource.
        cluster.create(asking("q", OF_CLASS, 2)).await;
        refused(cluster, "q", "cannot allocate all claims. still not schedulable").await;
        cluster.delete("pods", "p", DeleteParams::default()).await;
        wait_deleted(cluster, "resourceclaims", &name).await;
        let next = running(cluster, "q").await;
        assert_eq!(next["spec"]["nodeName"], node.as_str());
        let name = claim_of(&next);

        cluster.delete("pods", "q", DeleteParams::default()).await;
        wait_deleted(cluster, "resourceclaims", &name).await;
        cluster.create(asking("r", GPU, 3)).await;
        running(cluster, "r").await;
    });
}

#[test]
fn a_pod_waits_for_a_class_with_its_resource() {
    simulate(Setup::seed(182), async |cluster| {
        first_node(cluster).await;
        cluster.create(asking("p", GPU, 1)).await;
        refused(cluster, "p", "Insufficient example.com/gpu. no new claims to deallocate").await;
        with_devices(cluster, 1).await;
        running(cluster, "p").await;
    });
}

#[test]
fn quotas_charge_devices_under_all_of_their_names() {
    simulate(Setup::seed(183), async |cluster| {
        with_devices(cluster, 4).await;
        let [own, class] = [GPU, OF_CLASS].map(|name| format!("requests.{name}"));
        let devices = "gpu.deviceclass.resource.k8s.io/devices";
        let hard = json!({ own.as_str(): "4", class.as_str(): "2", devices: "4" });
        cluster
            .create(json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}))
            .await;
        let used = async |amounts: [&str; 3]| {
            let wanted = json!({ own.as_str(): amounts[0], class.as_str(): amounts[1], devices: amounts[2] });
            let text = format!("{wanted} are used");
            cluster
                .wait_object("resourcequotas", "q", &text, |quota| quota["status"]["used"] == wanted)
                .await;
        };
        used(["0", "0", "0"]).await;
        cluster.create(asking("p", GPU, 2)).await;
        running(cluster, "p").await;
        used(["2", "2", "2"]).await;
        // The pod itself is within the quota, and its claim is not.
        cluster.create(asking("q", GPU, 1)).await;
        refused(
            cluster,
            "q",
            "exceeded quota: q, requested: requests.deviceclass.resource.kubernetes.io/gpu=1",
        )
        .await;
        used(["3", "2", "2"]).await;
        let claims = cluster.list("resourceclaims", "default").await;
        assert_eq!(claims.len(), 1, "no claim is left behind");
        // A recount finds the same amounts.
        tokio::time::sleep(Duration::from_secs(10 * 60)).await;
        used(["3", "2", "2"]).await;
        cluster.delete("pods", "p", DeleteParams::default()).await;
        running(cluster, "q").await;
        used(["1", "1", "1"]).await;
        cluster.create(asking("r", OF_CLASS, 1)).await;
        running(cluster, "r").await;
        used(["2", "2", "2"]).await;
        // A claim that a user makes counts under all names.
        let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
        let claim = |name: &str| {
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}})
        };
        let error = cluster.try_create(claim("c")).await.unwrap_err().to_string();
        assert!(
            error.contains("exceeded quota: q, requested: requests.deviceclass.resource.kubernetes.io/gpu=1"),
            "{error}"
        );
        cluster.delete("pods", "r", DeleteParams::default()).await;
        used(["1", "1", "1"]).await;
        cluster.create(claim("c")).await;
        used(["2", "2", "2"]).await;
    });
}
