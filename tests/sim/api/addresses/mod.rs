//! Service addresses: their IP families, the networks they are allocated from, and deletion of networks in
//! use.

/// Services and networks that are created and deleted at random.
mod random;

use super::{case, run, send};
use kstore_tests::{Cluster, Reply, Setup, simulate};
use serde_json::{Value, json};
use std::time::Duration;

pub(super) const SERVICES: &str = "/api/v1/namespaces/default/services";
pub(super) const NETWORKS: &str = "/apis/networking.k8s.io/v1/servicecidrs";
pub(super) const RECORDS: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

pub(super) fn service(name: &str, spec: &Value) -> Value {
    let mut service = json!({ "metadata": { "name": name }, "spec": { "ports": [{ "port": 80 }] } });
    for (member, value) in spec.as_object().into_iter().flatten() {
        service["spec"][member] = value.clone();
    }
    service
}

pub(super) fn network(name: &str, cidrs: &[&str]) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "cidrs": cidrs } })
}

async fn post(cluster: &Cluster, path: &str, body: &Value) -> Reply {
    send(cluster, "POST", path, body).await
}

async fn get(cluster: &Cluster, path: &str) -> Value {
    send(cluster, "GET", path, &Value::Null).await.json()
}

/// Creates a Service and returns its addresses.
async fn addresses(cluster: &Cluster, name: &str, spec: Value) -> Vec<String> {
    let made = post(cluster, SERVICES, &service(name, &spec)).await;
    assert_eq!(made.code, 201, "{name}: {}", made.json());
    let made = made.json();
    assert_eq!(made["spec"]["clusterIP"], made["spec"]["clusterIPs"][0]);
    serde_json::from_value(made["spec"]["clusterIPs"].clone()).unwrap()
}

fn families(ips: &[String]) -> Vec<&'static str> {
    ips.iter().map(|ip| if ip.contains(':') { "IPv6" } else { "IPv4" }).collect()
}

#[test]
fn the_flag_determines_the_ip_families_of_services() {
    for (ranges, default, preferred) in [
        ("10.0.0.0/24", "IPv4", vec!["IPv4"]),
        ("fd00::/112", "IPv6", vec!["IPv6"]),
        ("10.0.0.0/24,fd00::/112", "IPv4", vec!["IPv4", "IPv6"]),
        ("fd00::/112,10.0.0.0/24", "IPv6", vec!["IPv6", "IPv4"]),
    ] {
        simulate(Setup::api_alone().service_ranges(ranges), async |cluster| {
            let default_network = get(cluster, &format!("{NETWORKS}/kubernetes")).await;
            let cidrs: Vec<&str> = ranges.split(',').collect();
            assert_eq!(default_network["spec"]["cidrs"], json!(cidrs));
            let api = get(cluster, &format!("{SERVICES}/kubernetes")).await;
            let first = if default == "IPv4" { "10.0.0.1" } else { "fd00::1" };
            assert_eq!(api["spec"]["clusterIPs"], json!([first]));
            assert_eq!(families(&addresses(cluster, "a", json!({})).await), [default], "{ranges}");
            let prefers = json!({ "ipFamilyPolicy": "PreferDualStack" });
            assert_eq!(families(&addresses(cluster, "b", prefers).await), preferred, "{ranges}");
            let requires = service("c", &json!({ "ipFamilyPolicy": "RequireDualStack" }));
            let code = if cidrs.len() == 2 { 201 } else { 422 };
            assert_eq!(post(cluster, SERVICES, &requires).await.code, code, "{ranges}");
        });
    }
}

#[test]
fn service_addresses_are_recorded_by_family_and_not_in_managed_fields() {
    simulate(Setup::api_alone().service_ranges("10.0.0.0/24,fd00::/112"), async |cluster| {
        let ips = addresses(cluster, "a", json!({ "ipFamilyPolicy": "RequireDualStack" })).await;
        for (ip, family) in ips.iter().zip(["IPv4", "IPv6"]) {
            let record = get(cluster, &format!("{RECORDS}/{ip}")).await;
            let labels = json!({ "ipaddress.kubernetes.io/ip-family": family, "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io" });
            assert_eq!(record["metadata"]["labels"], labels, "{record}");
            let parent = json!({ "resource": "services", "namespace": "default", "name": "a" });
            assert_eq!(record["spec"]["parentRef"], parent);
        }
        let stored = get(cluster, &format!("{SERVICES}/a")).await;
        let owned = &stored["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"];
        assert!(owned["f:ipFamilyPolicy"].is_object() && owned["f:ipFamilies"].is_null(), "{owned}");
        assert!(owned["f:clusterIP"].is_null() && owned["f:clusterIPs"].is_null(), "{owned}");
        assert_eq!(send(cluster, "DELETE", &format!("{SERVICES}/a"), &Value::Null).await.code, 200);
        for ip in &ips {
            assert_eq!(send(cluster, "GET", &format!("{RECORDS}/{ip}"), &Value::Null).await.code, 404);
        }
    });
}

#[test]
fn a_service_changes_from_single_stack_to_dual_stack_and_back() {
    simulate(Setup::api_alone().service_ranges("10.0.0.0/24,fd00::/112"), async |cluster| {
        let path = format!("{SERVICES}/a");
        let first = addresses(cluster, "a", json!({})).await;
        let dual = json!({ "spec": { "ipFamilyPolicy": "RequireDualStack" } });
        let dual = send(cluster, "PATCH", &path, &dual).await;
        let ips: Vec<String> = serde_json::from_value(dual.json()["spec"]["clusterIPs"].clone()).unwrap();
        assert_eq!((dual.code, &ips[0], families(&ips)), (200, &first[0], vec!["IPv4", "IPv6"]));
        let fewer = json!({ "spec": { "clusterIPs": [first[0]], "ipFamilies": ["IPv4"] } });
        let at = "/message";
        let refused = send(cluster, "PATCH", &path, &fewer).await;
        assert_eq!(refused.code, 422);
        assert!(refused.text(at).contains("must be 'SingleStack' to release the secondary cluster IP"));
        let single =
            send(cluster, "PATCH", &path, &json!({ "spec": { "ipFamilyPolicy": "SingleStack" } })).await;
        assert_eq!(single.json()["spec"]["clusterIPs"], json!(first));
        assert_eq!(single.json()["spec"]["ipFamilies"], json!(["IPv4"]));
        let record = send(cluster, "GET", &format!("{RECORDS}/{}", ips[1]), &Value::Null).await;
        assert_eq!(record.code, 404, "the second address is free again");
        let name = json!({ "spec": { "type": "ExternalName", "externalName": "a.b", "ports": null } });
        let named = send(cluster, "PATCH", &path, &name).await;
        assert!(named.code == 200 && named.json()["spec"]["ipFamilies"].is_null(), "{}", named.json());
        let record = send(cluster, "GET", &format!("{RECORDS}/{}", first[0]), &Value::Null).await;
        assert_eq!(record.code, 404);
        let back =
            json!({ "spec": { "type": "ClusterIP", "externalName": null, "ports": [{ "port": 80 }] } });
        let back = send(cluster, "PATCH", &path, &back).await;
        assert_eq!((back.code, &back.json()["spec"]["ipFamilies"]), (200, &json!(["IPv4"])));
    });
}

#[test]
fn invalid_addresses_and_families_are_refused_with_kubernetes_messages() {
    simulate(Setup::api_alone(), async |cluster| {
        let refusal = |what, spec: Value, field: &str, text: &str| {
            let message = format!("~Service \"a\" is invalid: {field}: Invalid value: {text}");
            case(what, ("POST", SERVICES), service("a", &spec), 422, json!({ "message": message }))
        };
        let address = |what, ip: &str, why: &str| {
            let text = format!("[\"{ip}\"]: failed to allocate IP {ip}: {why}");
            refusal(what, json!({ "clusterIP": ip }), "spec.clusterIPs", &text)
        };
        let outside = "the provided network does not match the current range";
        let no_six = "[\"fd00::9\"]: IPv6 is not configured on this cluster";
        let no_two = "\"RequireDualStack\": this cluster is not configured for dual-stack services";
        let (six, two) = (json!({ "ipFamilies": ["IPv6"] }), json!({ "ipFamilyPolicy": "RequireDualStack" }));
        let cases = [
            address("outside", "10.0.0.9", outside),
            address("the network's own", "10.96.0.0", outside),
            address("the shared one", "10.111.255.255", outside),
            address("the API's", "10.96.0.1", "provided IP is already allocated"),
            refusal(
                "a family by its address",
                json!({ "clusterIP": "fd00::9" }),
                "spec.clusterIPs[0]",
                no_six,
            ),
            refusal("a family", six, "spec.ipFamilies[0]", "\"IPv6\": not configured on this cluster"),
            refusal("both families", two, "spec.ipFamilyPolicy", no_two),
        ];
        run(cluster, cases).await;
    });
}

#[test]
fn a_full_network_allocates_no_address_until_another_network_exists() {
    simulate(Setup::api_alone().service_ranges("10.0.0.0/29"), async |cluster| {
        let mut given = Vec::new();
        for i in 0..5 {
            given.extend(addresses(cluster, &format!("s{i}"), json!({})).await);
        }
        given.sort();
        assert_eq!(given, ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]);
        let full = post(cluster, SERVICES, &service("more", &json!({}))).await;
        let text = "Internal error occurred: failed to allocate a serviceIP: range is full";
        assert_eq!((full.code, full.text("/message").as_str()), (500, text));
        let asked = json!({ "clusterIP": "10.9.0.77" });
        assert_eq!(post(cluster, SERVICES, &service("asked", &asked)).await.code, 422);

        assert_eq!(post(cluster, NETWORKS, &network("more", &["10.9.0.0/24"])).await.code, 201);
        assert!(addresses(cluster, "more", json!({})).await[0].starts_with("10.9.0."));
        assert_eq!(addresses(cluster, "asked", asked).await, ["10.9.0.77"]);
        let condition = |status: &str| {
            json!({ "status": { "conditions": [{ "type": "Ready", "status": status, "reason": "x",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" }] } })
        };
        let status = format!("{NETWORKS}/more/status");
        assert_eq!(send(cluster, "PATCH", &status, &condition("False")).await.code, 200);
        assert_eq!(post(cluster, SERVICES, &service("late", &json!({}))).await.code, 500);
        assert_eq!(send(cluster, "PATCH", &status, &condition("True")).await.code, 200);
        addresses(cluster, "late", json!({})).await;
    });
}

#[test]
fn low_addresses_are_reserved_for_explicit_requests_while_others_are_free() {
    simulate(Setup::api_alone().service_ranges("10.0.0.0/27"), async |cluster| {
        let mut given = Vec::new();
        for i in 0..29 {
            given.extend(addresses(cluster, &format!("s{i}"), json!({})).await);
        }
        let last = |ip: &String| ip.rsplit('.').next().unwrap().parse::<u8>().unwrap();
        let (upper, lower) = given.split_at(14);
        assert!(upper.iter().all(|ip| last(ip) > 16), "{given:?}");
        assert!(lower.iter().all(|ip| (2..=16).contains(&last(ip))), "{given:?}");
    });
}

#[test]
fn an_existing_ip_address_object_makes_its_address_unavailable_even_to_its_service() {
    simulate(Setup::api_alone(), async |cluster| {
        let record = json!({ "metadata": { "name": "10.96.0.50" },
            "spec": { "parentRef": { "resource": "services", "namespace": "default", "name": "a" } } });
        assert_eq!(post(cluster, RECORDS, &record).await.code, 201);
        let asked = service("a", &json!({ "clusterIP": "10.96.0.50" }));
        let refused = post(cluster, SERVICES, &asked).await;
        assert_eq!(refused.code, 422, "{}", refused.json());
        assert!(refused.text("/message").contains("provided IP is already allocated"));
    });
}

#[test]
fn equal_addresses_in_different_notations_conflict() {
    simulate(Setup::api_alone().service_ranges("fd00::/112"), async |cluster| {
        let asked = json!({ "clusterIP": "fd00:0::0050" });
        assert_eq!(addresses(cluster, "a", asked).await, ["fd00:0::0050"], "as it was written");
        assert_eq!(send(cluster, "GET", &format!("{RECORDS}/fd00::50"), &Value::Null).await.code, 200);
        let again = post(cluster, SERVICES, &service("b", &json!({ "clusterIP": "fd00::0:50" }))).await;
        assert!(again.text("/message").contains("provided IP is already allocated"), "{}", again.json());
        let labelled = json!({ "metadata": { "labels": { "a": "b" } } });
        assert_eq!(send(cluster, "PATCH", &format!("{SERVICES}/a"), &labelled).await.code, 200);
        send(cluster, "DELETE", &format!("{SERVICES}/a"), &Value::Null).await;
        assert_eq!(send(cluster, "GET", &format!("{RECORDS}/fd00::50"), &Value::Null).await.code, 404);
    });
}

#[test]
fn another_apiserver_can_add_a_second_family_but_not_a_different_network() {
    simulate(Setup::api_alone().service_ranges("10.0.0.0/24"), async |cluster| {
        drop(cluster.apiserver_with("10.1.0.0/24".parse().unwrap()).await);
        let path = format!("{NETWORKS}/kubernetes");
        assert_eq!(get(cluster, &path).await["spec"]["cidrs"], json!(["10.0.0.0/24"]));
        drop(cluster.apiserver_with("10.0.0.0/24,fd00::/112".parse().unwrap()).await);
        assert_eq!(get(cluster, &path).await["spec"]["cidrs"], json!(["10.0.0.0/24", "fd00::/112"]));
    });
}

/// Waits until the condition Ready of a network has this status.
async fn until_ready_is(cluster: &Cluster, name: &str, status: &str) -> Value {
    let path = format!("{NETWORKS}/{name}");
    let holds = async || get(cluster, &path).await["status"]["conditions"][0]["status"] == status;
    cluster.wait_until(&format!("{name} is ready: {status}"), holds).await;
    get(cluster, &path).await
}

async fn is_there(cluster: &Cluster, name: &str) -> bool {
    send(cluster, "GET", &format!("{NETWORKS}/{name}"), &Value::Null).await.code == 200
}

#[test]
fn a_network_becomes_ready_and_is_deleted_when_unused() {
    simulate(Setup::seed(1).nodes(0), async |cluster| {
        post(cluster, NETWORKS, &network("more", &["10.9.0.0/24"])).await;
        let ready = until_ready_is(cluster, "more", "True").await;
        assert_eq!(ready["metadata"]["finalizers"], json!([FINALIZER]));
        assert_eq!(ready["status"]["conditions"][0]["message"], "Kubernetes Service CIDR is ready");
        addresses(cluster, "a", json!({ "clusterIP": "10.9.0.7" })).await;

        send(cluster, "DELETE", &format!("{NETWORKS}/more"), &Value::Null).await;
        let kept = until_ready_is(cluster, "more", "False").await;
        let condition = &kept["status"]["conditions"][0];
        assert_eq!(condition["reason"], "Terminating");
        assert!(
            condition["message"].as_str().unwrap().starts_with("There are still IPAddresses referencing")
        );
        let none = post(cluster, SERVICES, &service("b", &json!({ "clusterIP": "10.9.0.8" }))).await;
        assert_eq!(none.code, 422, "a network in deletion allocates no addresses");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(is_there(cluster, "more").await);

        send(cluster, "DELETE", &format!("{SERVICES}/a"), &Value::Null).await;
        cluster.wait_until("the network is deleted", async || !is_there(cluster, "more").await).await;
    });
}

#[test]
fn a_wider_network_takes_over_the_addresses_of_a_deleted_one() {
    simulate(Setup::seed(1).nodes(0), async |cluster| {
        let finalized = async || {
            get(cluster, &format!("{NETWORKS}/kubernetes")).await["metadata"]["finalizers"]
                == json!([FINALIZER])
        };
        cluster.wait_until("the network is looked after", finalized).await;
        send(cluster, "DELETE", &format!("{NETWORKS}/kubernetes"), &Value::Null).await;
        until_ready_is(cluster, "kubernetes", "False").await;
        let before = tokio::time::Instant::now();
        tokio::time::sleep(Duration::from_secs(3)).await;
        post(cluster, NETWORKS, &network("wider", &["10.0.0.0/8"])).await;
        cluster.wait_until("the network is deleted", async || !is_there(cluster, "kubernetes").await).await;
        assert!(
            before.elapsed() >= Duration::from_secs(8),
            "not before all servers know: {:?}",
            before.elapsed()
        );
        addresses(cluster, "a", json!({ "clusterIP": "10.200.0.1" })).await;
    });
}

#[test]
fn missing_address_records_are_recreated_and_stale_ones_deleted() {
    simulate(Setup::seed(1).nodes(0), async |cluster| {
        let ip = addresses(cluster, "a", json!({})).await.remove(0);
        let path = format!("{RECORDS}/{ip}");
        let there = async || send(cluster, "GET", &path, &Value::Null).await.code == 200;
        assert_eq!(send(cluster, "DELETE", &path, &Value::Null).await.code, 200);
        cluster.wait_until("the record is back", there).await;
        assert_eq!(get(cluster, &path).await["spec"]["parentRef"]["name"], "a");

        let leaked = json!({ "metadata": { "name": "10.96.0.99", "labels": {
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io", "ipaddress.kubernetes.io/ip-family": "IPv4" } },
            "spec": { "parentRef": { "resource": "services", "namespace": "default", "name": "gone" } } });
        post(cluster, RECORDS, &leaked).await;
        let path = format!("{RECORDS}/10.96.0.99");
        tokio::time::sleep(Duration::from_secs(50)).await;
        let there = async || send(cluster, "GET", &path, &Value::Null).await.code == 200;
        assert!(there().await);
        cluster.wait_until("the record is deleted", async || !there().await).await;
    });
}
