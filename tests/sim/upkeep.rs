//! Small controllers in a whole cluster: mirrored Endpoints, load balancers from a pool, node networks and
//! TTLs, ephemeral volume claims, expired bootstrap tokens, hints of endpoints.

use kstore_client::{DeleteParams, Patch};
use kstore_controllers::{Networks, PodNetworks};
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};

async fn slices_of(cluster: &Cluster, service: &str) -> Vec<Value> {
    let mut slices = cluster.list("endpointslices", "default").await;
    slices.retain(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service);
    slices
}

#[test]
fn endpoints_written_by_a_user_are_mirrored_until_deleted() {
    simulate(Setup::seed(91), async |cluster| {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "outside"}, "spec": {"ports": [{"port": 80}]}});
        cluster.create(service).await;
        let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "outside"},
            "subsets": [{"addresses": [{"ip": "192.0.2.10"}], "ports": [{"port": 8080}]}]});
        cluster.create(endpoints).await;
        let has = async |ip: &str| {
            let slices = slices_of(cluster, "outside").await;
            slices.len() == 1 && slices[0]["endpoints"][0]["addresses"][0] == ip
        };
        cluster.wait_until("the address is mirrored", async || has("192.0.2.10").await).await;
        let by = slices_of(cluster, "outside").await[0]["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"].clone();
        assert_eq!(by, "endpointslicemirroring-controller.k8s.io");
        let moved = json!({"subsets": [{"addresses": [{"ip": "192.0.2.11"}], "ports": [{"port": 8080}]}]});
        cluster.merge("endpoints", "outside", moved).await;
        cluster.wait_until("the new address is mirrored", async || has("192.0.2.11").await).await;
        cluster.delete("endpoints", "outside", DeleteParams::default()).await;
        let is_empty = async || slices_of(cluster, "outside").await.is_empty();
        cluster.wait_until("the mirror is deleted", is_empty).await;
    });
}

fn load_balancer(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 80}]}})
}

/// The addresses of a load balancer.
fn ingress(service: &Value) -> Vec<String> {
    let all = service["status"]["loadBalancer"]["ingress"].as_array().cloned().unwrap_or_default();
    all.iter().map(|one| one["ip"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn load_balancers_get_addresses_of_the_pool_and_release_them() {
    let mut setup = Setup::seed(92);
    setup.networks.load_balancers = "192.0.2.0/30".parse().unwrap();
    simulate(setup, async |cluster| {
        let has = |ip: &'static str| move |service: &Value| ingress(service) == [ip];
        cluster.create(load_balancer("a")).await;
        let first = cluster.wait_object("services", "a", "has the first address", has("192.0.2.1")).await;
        assert_eq!(first["status"]["loadBalancer"]["ingress"][0]["ipMode"], "VIP");
        assert_eq!(first["metadata"]["finalizers"], json!(["service.kubernetes.io/load-balancer-cleanup"]));
        // Created one after the other: several workers assign addresses at a time.
        cluster.create(load_balancer("b")).await;
        cluster.wait_object("services", "b", "has the second address", has("192.0.2.2")).await;
        cluster.create(load_balancer("c")).await;
        let is_told = async || {
            let events = cluster.list("events", "default").await;
            events.iter().any(|event| event["reason"] == "SyncLoadBalancerFailed")
        };
        cluster.wait_until("an event says that the pool is empty", is_told).await;
        cluster.merge("services", "a", json!({"spec": {"type": "ClusterIP"}})).await;
        cluster.wait_object("services", "c", "has the address that became free", has("192.0.2.1")).await;
        let plain =
            |service: &Value| ingress(service).is_empty() && service["metadata"]["finalizers"].is_null();
        cluster.wait_object("services", "a", "is a plain service", plain).await;
        cluster.delete("services", "b", DeleteParams::default()).await;
        let is_gone = async || cluster.get("services", "default", "b").await.is_none();
        cluster.wait_until("a load balancer can be deleted", is_gone).await;
    });
}

#[test]
fn without_a_pool_load_balancers_stay_pending() {
    simulate(Setup::seed(93), async |cluster| {
        cluster.create(load_balancer("a")).await;
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        let service = cluster.get("services", "default", "a").await.unwrap();
        assert!(ingress(&service).is_empty() && service["metadata"]["finalizers"].is_null(), "{service}");
    });
}

#[test]
fn nodes_without_a_pod_network_get_one_and_all_get_a_ttl() {
    let mut setup = Setup::seed(94);
    setup.networks = Networks {
        pods: PodNetworks::new("10.1.0.0/23,fd00:1::/48".parse().unwrap(), None, None).unwrap(),
        ..Networks::default()
    };
    simulate(setup, async |cluster| {
        for name in ["foreign-0", "foreign-1"] {
            cluster.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).await;
        }
        let nodes = async || cluster.list("nodes", "").await;
        let all_have = async |path: &str| {
            nodes().await.iter().all(|node| !node.pointer(path).is_none_or(Value::is_null))
        };
        cluster.wait_until("all nodes have pod networks", async || all_have("/spec/podCIDR").await).await;
        let networks: Vec<Value> =
            nodes().await.iter().map(|node| node["spec"]["podCIDRs"].clone()).collect();
        assert!(networks.contains(&json!(["10.1.0.0/24", "fd00:1::/64"])), "{networks:?}");
        assert!(networks.contains(&json!(["10.1.1.0/24", "fd00:1:0:1::/64"])), "{networks:?}");
        let annotation = "/metadata/annotations/node.alpha.kubernetes.io~1ttl";
        cluster.wait_until("all nodes have a TTL", async || all_have(annotation).await).await;
        assert_eq!(nodes().await[0].pointer(annotation), Some(&json!("0")));
    });
}

#[test]
fn an_ephemeral_volume_has_a_claim_that_is_deleted_with_its_pod() {
    simulate(Setup::seed(95), async |cluster| {
        let template = json!({"metadata": {"labels": {"for": "scratch"}}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}});
        let volumes =
            json!({"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]});
        cluster.create(manifests::pod("p", volumes.clone())).await;
        let bound = |claim: &Value| claim["status"]["phase"] == "Bound";
        let claim = cluster.wait_object("persistentvolumeclaims", "p-scratch", "is bound", bound).await;
        assert_eq!(claim["metadata"]["labels"], json!({"for": "scratch"}));
        assert_eq!(claim["metadata"]["ownerReferences"][0]["name"], "p");
        cluster.delete("pods", "p", DeleteParams::default()).await;
        let is_gone = async || cluster.get("persistentvolumeclaims", "default", "p-scratch").await.is_none();
        cluster.wait_until("the claim is deleted", is_gone).await;

        let foreign = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "q-scratch"}, "spec": template["spec"]});
        cluster.create(foreign).await;
        cluster.create(manifests::pod("q", volumes)).await;
        let is_told = async || {
            let events = cluster.list("events", "default").await;
            events.iter().any(|event| {
                event["reason"] == "FailedBinding" && event.to_string().contains("pod is not owner")
            })
        };
        cluster.wait_until("an event says whose the claim is not", is_told).await;
    });
}

#[test]
fn expired_bootstrap_tokens_are_deleted() {
    simulate(Setup::seed(96), async |cluster| {
        let token = |name: &str, expiration: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "kube-system"},
                "type": "bootstrap.kubernetes.io/token", "stringData": {"expiration": expiration}})
        };
        cluster.create(token("bootstrap-token-aaaaaa", "2026-01-01T00:05:00Z")).await;
        cluster.create(token("bootstrap-token-bbbbbb", "2036-01-01T00:00:00Z")).await;
        let is_gone =
            async || cluster.get("secrets", "kube-system", "bootstrap-token-aaaaaa").await.is_none();
        cluster.wait_until("the token is deleted", is_gone).await;
        assert!(cluster.nondet().clock.now() >= "2026-01-01T00:05:00Z".parse().unwrap());
        assert!(cluster.get("secrets", "kube-system", "bootstrap-token-bbbbbb").await.is_some());
    });
}

#[test]
fn endpoints_get_hints_as_their_service_asks() {
    simulate(Setup::seed(99), async |cluster| {
        cluster.wait_until("nodes exist", async || cluster.list("nodes", "").await.len() == 3).await;
        let nodes = cluster.list("nodes", "").await;
        for (node, zone) in nodes.iter().zip(["za", "zb", "zc"]) {
            let name = node["metadata"]["name"].as_str().unwrap();
            let labels = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}});
            cluster.resource("nodes").patch("", name, "", &Patch::Merge(labels)).await.unwrap();
        }
        cluster.create(manifests::deployment("web", 9)).await;
        cluster.wait_rolled_out("web").await;
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}], "trafficDistribution": "PreferSameNode"}});
        cluster.create(service).await;
        let holds = async |is_hint: fn(&Value) -> bool| {
            let slices = slices_of(cluster, "web").await;
            let endpoints =
                slices.iter().flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
            let endpoints: Vec<Value> = endpoints.collect();
            endpoints.len() == 9 && endpoints.iter().all(is_hint)
        };
        let to_node = |one: &Value| {
            one["hints"]
                == json!({"forZones": [{"name": one["zone"]}], "forNodes": [{"name": one["nodeName"]}]})
        };
        cluster.wait_until("hints name the nodes", async || holds(to_node).await).await;
        let automatic = json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}}});
        cluster.merge("services", "web", automatic).await;
        let to_a_zone = |one: &Value| {
            one["hints"]["forNodes"].is_null()
                && one["hints"]["forZones"].as_array().is_some_and(|all| all.len() == 1)
        };
        cluster.wait_until("hints name zones", async || holds(to_a_zone).await).await;
        let enabled = async || {
            let events = cluster.list("events", "default").await;
            events.iter().any(|event| {
                event["reason"] == "TopologyAwareHintsEnabled"
                    && event["source"]["component"] == "endpoint-slice-controller"
            })
        };
        cluster.wait_until("an event says so", enabled).await;
        let none = json!({"metadata": {"annotations": null}, "spec": {"trafficDistribution": null}});
        cluster.merge("services", "web", none).await;
        cluster.wait_until("hints are gone", async || holds(|one| one["hints"].is_null()).await).await;
    });
}

#[test]
fn a_small_service_has_its_pods_as_soon_as_they_are_ready() {
    simulate(Setup::seed(103), async |cluster| {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
        cluster.create(service).await;
        cluster.create(manifests::deployment("web", 2)).await;
        // The slices have the addresses of pods before they are ready, and change again when they are.
        cluster.wait_rolled_out("web").await;
        let ready = cluster.nondet().clock.now();
        let is_ready = |endpoint: &Value| endpoint["conditions"]["ready"] == true;
        let are_there = async || {
            let slices = slices_of(cluster, "web").await;
            slices
                .iter()
                .filter_map(|slice| slice["endpoints"].as_array())
                .flatten()
                .filter(|one| is_ready(one))
                .count()
                == 2
        };
        cluster.wait_until("both pods take connections", are_there).await;
        let waited = cluster.nondet().clock.now().duration_since(ready);
        assert!(waited.as_millis() < 200, "{waited}");
    });
}
