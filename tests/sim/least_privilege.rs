//! Controllers have separate service accounts with no more permissions than in Kubernetes. Every simulated
//! cluster fails if authorization refuses one of its own components (`kstore_tests`); this scenario gives
//! each controller something to do.

use kstore_client::{DeleteParams, DynamicApi, Gvr, Patch, Propagation};
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::time::Duration;

const SHOP: &str = "shop.example.com";

fn api(cluster: &Cluster, group: &'static str, plural: &'static str) -> DynamicApi {
    cluster.client().dynamic(Gvr::new(group, "v1", plural))
}

fn roles(cluster: &Cluster) -> DynamicApi {
    api(cluster, "rbac.authorization.k8s.io", "clusterroles")
}

async fn wait_deleted(cluster: &Cluster, plural: &str, namespace: &str, name: &str) {
    let is_gone = async || cluster.get(plural, namespace, name).await.is_none();
    cluster.wait_until(&format!("{plural}/{name} is deleted"), is_gone).await;
}

/// Waits until a new object with this name exists.
async fn replaced(cluster: &Cluster, plural: &str, name: &str, old: &Value) {
    let is_new = async || {
        let object = cluster.get(plural, "default", name).await;
        object.is_some_and(|object| object["metadata"]["uid"] != old["metadata"]["uid"])
    };
    cluster.wait_until(&format!("{plural}/{name} is there again"), is_new).await;
}

/// Workloads: rollout, adoption and release of pods, budgets, endpoints.
async fn workloads(cluster: &Cluster) {
    cluster.create(manifests::deployment("web", 3)).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    cluster.create(service).await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    cluster.create(budget).await;
    cluster.wait_rolled_out("web").await;
    let has_addresses = async || {
        let endpoints = cluster.get("endpoints", "default", "web").await.unwrap_or_default();
        endpoints["subsets"][0]["addresses"].as_array().is_some_and(|all| all.len() == 3)
    };
    cluster.wait_until("Endpoints with all pods", has_addresses).await;
    let sets = cluster.list("replicasets", "default").await;
    let pods = cluster.list("pods", "default").await;
    let [set, pod] = [&sets[0], &pods[0]].map(|object| object["metadata"]["name"].as_str().unwrap());
    let is_free = |pod: &Value| pod["metadata"]["ownerReferences"].is_null();
    for (label, free) in [("other", true), ("web", false)] {
        cluster.merge("pods", pod, json!({"metadata": {"labels": {"app": label}}})).await;
        let done = async || cluster.get("pods", "default", pod).await.is_none_or(|pod| is_free(&pod) == free);
        cluster.wait_until(&format!("the pod is free: {free}"), done).await;
    }
    let orphan = DeleteParams { propagation: Some(Propagation::Orphan), ..DeleteParams::default() };
    cluster.delete("deployments", "web", orphan).await;
    wait_deleted(cluster, "deployments", "default", "web").await;
    cluster.create(manifests::deployment("web", 2)).await;
    let adopted = async || {
        let set = cluster.get("replicasets", "default", set).await.unwrap();
        !is_free(&set)
    };
    cluster.wait_until("the ReplicaSet is adopted", adopted).await;
    cluster.strategic("deployments", "web", manifests::image("nginx:2")).await;
    cluster.wait_rolled_out("web").await;
}

/// Default objects of namespaces, and deletion of a namespace with content, custom objects included.
async fn namespaces(cluster: &Cluster) {
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("carts.{SHOP}")},
        "spec": {"group": SHOP, "scope": "Namespaced", "names": {"plural": "carts", "kind": "Cart"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    cluster.create(definition).await;
    let carts = api(cluster, SHOP, "carts");
    let cart =
        |name: &str| json!({"apiVersion": format!("{SHOP}/v1"), "kind": "Cart", "metadata": {"name": name}});
    cluster.create(manifests::namespace("doomed")).await;
    carts.create("doomed", &cart("last")).await.unwrap();
    api(cluster, "", "configmaps").create("doomed", &manifests::config_map("x", "1")).await.unwrap();
    let owner = carts.create("default", &cart("owner")).await.unwrap();
    let mut owned = manifests::config_map("owned", "1");
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": format!("{SHOP}/v1"), "kind": "Cart",
        "name": "owner", "uid": owner["metadata"]["uid"]}]);
    cluster.create(owned).await;
    carts.delete("default", "owner", &DeleteParams::default()).await.unwrap();
    wait_deleted(cluster, "configmaps", "default", "owned").await;
    api(cluster, "", "namespaces").delete("", "doomed", &DeleteParams::default()).await.unwrap();
    wait_deleted(cluster, "namespaces", "", "doomed").await;
    for (plural, name) in [("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")] {
        let old = cluster.get(plural, "default", name).await.unwrap();
        cluster.delete(plural, name, DeleteParams::default()).await;
        replaced(cluster, plural, name, &old).await;
    }
    let foreign = json!({"data": {"ca.crt": "another"}});
    cluster.merge("configmaps", "kube-root-ca.crt", foreign).await;
    let repaired = async || {
        let map = cluster.get("configmaps", "default", "kube-root-ca.crt").await.unwrap();
        map["data"]["ca.crt"] == "test CA"
    };
    cluster.wait_until("the certificate is back", repaired).await;
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "carts"},
        "spec": {"paramKind": {"apiVersion": format!("{SHOP}/v1"), "kind": "Cart"}, "matchConstraints": {"resourceRules": [
            {"apiGroups": [SHOP], "apiVersions": ["v1"], "resources": ["carts"], "operations": ["CREATE"]}]},
            "validations": [{"expression": "object.metadata.name != 'x'"}]}});
    cluster.create(policy).await;
    let is_checked = |policy: &Value| policy["status"]["observedGeneration"] == 1;
    let checked = async || {
        cluster
            .get("validatingadmissionpolicies", "", "carts")
            .await
            .is_some_and(|policy| is_checked(&policy))
    };
    cluster.wait_until("the policy is checked", checked).await;
}

/// Service networks and addresses, and address records without a Service.
async fn networks(cluster: &Cluster) {
    let network = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "more"},
        "spec": {"cidrs": ["10.99.0.0/24"]}});
    cluster.create(network).await;
    let is_ready = async || {
        let network = cluster.get("servicecidrs", "", "more").await.unwrap_or_default();
        network["status"]["conditions"][0]["status"] == "True"
    };
    cluster.wait_until("the network is ready", is_ready).await;
    let networking = |plural| api(cluster, "networking.k8s.io", plural);
    networking("servicecidrs").delete("", "more", &DeleteParams::default()).await.unwrap();
    wait_deleted(cluster, "servicecidrs", "", "more").await;
    let address = cluster.get("services", "default", "web").await.unwrap()["spec"]["clusterIP"].clone();
    let address = address.as_str().unwrap();
    networking("ipaddresses").delete("", address, &DeleteParams::default()).await.unwrap();
    let is_there = async || cluster.get("ipaddresses", "", address).await.is_some();
    cluster.wait_until("the address has its record again", is_there).await;
    let leaked = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": "10.98.0.9",
        "labels": {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io", "ipaddress.kubernetes.io/ip-family": "IPv4"}},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "missing"}}});
    cluster.create(leaked).await;
    wait_deleted(cluster, "ipaddresses", "", "10.98.0.9").await;
}

/// Unreachable, tainted and deleted nodes with pods on them.
async fn nodes(cluster: &Cluster) {
    let nodes = cluster.list("nodes", "").await;
    let [first, second] = [0, 1].map(|index| nodes[index]["metadata"]["name"].as_str().unwrap().to_owned());
    let taint = json!({"spec": {"taints": [{"key": "sick", "value": "yes", "effect": "NoExecute"}]}});
    api(cluster, "", "nodes").patch("", &first, "", &Patch::Strategic(taint)).await.unwrap();
    let is_empty = async |node: &str| {
        cluster.list("pods", "default").await.iter().all(|pod| pod["spec"]["nodeName"] != *node)
    };
    cluster.wait_until("the tainted node is empty", async || is_empty(&first).await).await;
    cluster.nodes().stop_node(&second).await.unwrap();
    cluster
        .wait_until("pods leave the node that is silent", async || {
            let pods = cluster.list("pods", "default").await;
            let on_it = pods.iter().filter(|pod| pod["spec"]["nodeName"] == *second);
            on_it.clone().all(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
        })
        .await;
    api(cluster, "", "nodes").delete("", &second, &DeleteParams::default()).await.unwrap();
    cluster.wait_until("no pod of the deleted node is left", async || is_empty(&second).await).await;
}

#[test]
fn controllers_have_all_permissions_they_need() {
    simulate(Setup::seed(31).nodes(4), async |cluster| {
        workloads(cluster).await;
        namespaces(cluster).await;
        networks(cluster).await;
        nodes(cluster).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    });
}

fn rule(resource: &str) -> Value {
    json!({"verbs": ["get"], "apiGroups": [SHOP], "resources": [resource]})
}

#[test]
fn cluster_roles_are_aggregated_transitively_including_user_roles() {
    simulate(Setup::seed(32), async |cluster| {
        let role = |name: &str, labels: Value| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": name, "labels": labels}, "rules": [rule(name)]})
        };
        let mut mine = role("mine", json!({}));
        mine["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"team": "mine"}}]});
        cluster.create(mine).await;
        let to_view = "rbac.authorization.k8s.io/aggregate-to-view";
        cluster.create(role("carts", json!({to_view: "true", "team": "mine"}))).await;
        let has = async |name: &str, resource: &str| {
            let role = roles(cluster).get("", name).await.unwrap();
            role["rules"].as_array().is_some_and(|rules| rules.contains(&rule(resource)))
        };
        for name in ["view", "edit", "admin", "mine"] {
            cluster.wait_until(&format!("{name} has it"), async || has(name, "carts").await).await;
        }
        assert!(!has("mine", "mine").await, "an aggregating role has no rules of its own");
        let view = roles(cluster).get("", "view").await.unwrap();
        let managers = view["metadata"]["managedFields"].as_array().unwrap();
        let applied = managers.iter().find(|entry| entry["operation"] == "Apply").unwrap();
        assert_eq!(applied["manager"], "clusterrole-aggregation-controller");
        roles(cluster).delete("", "carts", &DeleteParams::default()).await.unwrap();
        for name in ["view", "edit", "admin", "mine"] {
            cluster.wait_until(&format!("{name} lost it"), async || !has(name, "carts").await).await;
        }
    });
}
