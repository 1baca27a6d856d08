//! Where connections of simulated pods through a Service go: to the endpoints in its EndpointSlices, whoever wrote them.

use super::network::{of_image, sh};
use super::streams::run;
use kstore_client::DeleteParams;
use kstore_tests::{Cluster, Setup, simulate};
use serde_json::{Value, json};

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

fn service(name: &str, labels: Value) -> Value {
    let ports = json!([{"name": "http", "port": 80, "targetPort": 9376}]);
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": labels},
        "spec": {"type": "NodePort", "selector": {"app": name}, "ports": ports}})
}

/// A slice of the Service `web` that nothing but this test manages.
fn slice(name: &str, labels: Value, addresses: &[&str]) -> Value {
    let mut labels = labels;
    labels["kubernetes.io/service-name"] = json!("web");
    let endpoints: Vec<Value> = addresses.iter().map(|address| json!({"addresses": [address]})).collect();
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": labels}, "addressType": "IPv4",
        "ports": [{"name": "http", "port": 9376}], "endpoints": endpoints})
}

async fn put(cluster: &Cluster, slice: &Value) {
    let path = format!("{SLICES}/{}", slice["metadata"]["name"].as_str().unwrap());
    let reply = cluster.rest().call("PUT", &path, slice.to_string()).await;
    assert_eq!(reply.code, 200, "{}", String::from_utf8_lossy(&reply.body));
}

/// Waits until the controller's slice of a Service has this many endpoints.
pub(super) async fn endpoints(cluster: &Cluster, service: &str, count: usize) {
    let are_there = async || {
        let slices = cluster.list("endpointslices", "default").await;
        let own = slices.iter().filter(|slice| {
            slice["metadata"]["labels"]["kubernetes.io/service-name"] == service
                && slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"].is_string()
        });
        let all = own.flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
        all.filter(|endpoint| endpoint["conditions"]["ready"] == true).count() == count
    };
    cluster.wait_until(&format!("{service} has {count} endpoints"), are_there).await;
}

#[test]
fn slices_lead_to_their_endpoints_whoever_wrote_them_and_labels_keep_them_out() {
    simulate(Setup::seed(141), async |cluster| {
        let mut address = std::collections::BTreeMap::new();
        for (name, app) in [("own", "web"), ("added", "none"), ("names", "none"), ("other", "other")] {
            let mut pod = of_image(name, "agnhost", &["serve-hostname"]);
            pod["metadata"]["labels"] = json!({"app": app});
            run(cluster, pod).await;
            let pod = cluster.get("pods", "default", name).await.unwrap();
            address.insert(name, pod["status"]["podIP"].as_str().unwrap().to_owned());
        }
        run(cluster, of_image("c", "busybox", &["sleep", "86400"])).await;
        let web = cluster.create(service("web", json!({}))).await;
        let other = json!({"service.kubernetes.io/service-proxy-name": "mesh"});
        let other = cluster.create(service("other", other)).await;
        endpoints(cluster, "web", 1).await;
        endpoints(cluster, "other", 1).await;
        let all = "for i in $(seq 1 24); do curl -s http://web; echo; done | sort -u | tr '\\n' ' '";
        assert_eq!(sh(cluster, "c", all).await.0, "own ");

        // One that was added by hand counts beside that of the controller, and one for names alone does not.
        cluster.create(slice("by-hand", json!({}), &[&address["added"]])).await;
        let headless = json!({"service.kubernetes.io/headless": ""});
        cluster.create(slice("for-names", headless, &[&address["names"]])).await;
        assert_eq!(sh(cluster, "c", all).await.0, "added own ");
        // A change counts at once, whatever the pods are.
        put(cluster, &slice("by-hand", json!({}), &[])).await;
        assert_eq!(sh(cluster, "c", all).await.0, "own ");
        put(cluster, &slice("by-hand", json!({}), &[&address["added"], &address["own"]])).await;
        cluster.delete("pods", "own", DeleteParams::default()).await;
        endpoints(cluster, "web", 0).await;
        put(cluster, &slice("by-hand", json!({}), &[&address["added"]])).await;
        assert_eq!(sh(cluster, "c", all).await.0, "added ");
        let refused = format!("{SLICES}/by-hand");
        assert_eq!(cluster.rest().call("DELETE", &refused, "").await.code, 200);
        let code = sh(cluster, "c", "curl -s http://web; echo $?").await.0;
        assert_eq!(code, "own0\n", "the one that ends still serves");

        // The other Service has its name, and no address that is served, in the cluster or at nodes.
        let ip = other["spec"]["clusterIP"].as_str().unwrap();
        assert_eq!(sh(cluster, "c", "dig +short +search other").await.0, format!("{ip}\n"));
        let unreachable = format!("wget: can't connect to remote host ({ip}): Host is unreachable\n");
        assert_eq!(sh(cluster, "c", "wget -qO- http://other").await.1, unreachable);
        let nodes = cluster.list("nodes", "").await;
        let node = nodes[0]["status"]["addresses"].as_array().unwrap();
        let node = node.iter().find(|one| one["type"] == "InternalIP").unwrap()["address"].as_str().unwrap();
        for (made, answer) in [(&other, "7\n"), (&web, "own0\n")] {
            let port = &made["spec"]["ports"][0]["nodePort"];
            let script = format!("curl -s {node}:{port}; echo $?");
            assert_eq!(sh(cluster, "c", &script).await.0, answer, "{script}");
        }
    });
}
