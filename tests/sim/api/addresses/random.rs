//! Property test of address allocation: two servers on one storage, clients of both, and services and
//! networks that are created, changed and deleted at random. The oracle checks the history at every revision:
//! the records are exactly the services' addresses, no two services share an address, and each address was
//! allocated from a network that was ready then. In the end all addresses are released.

use super::{NETWORKS, RECORDS, SERVICES, network, service};
use futures::future::join_all;
use kstore_api::cidr::Cidr;
use kstore_nondet::Rng;
use kstore_tests::{Change, Cluster, Rest, Setup, Storage, simulate};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// Number of rounds.
const ROUNDS: usize = 50;
const CONCURRENT_REQUESTS: usize = 4;
const NAMES: u64 = 14;
const BLOCKS: [&[&str]; 6] = [
    &["10.0.1.0/29"],
    &["10.0.0.0/24"],
    &["10.0.1.0/28", "fd00::1:0/124"],
    &["fd00::/112"],
    &["10.0.1.0/29", "fd00::1:0/125"],
    &["10.0.2.0/30"],
];

fn pick<T: Copy>(rng: &Rng, from: &[T]) -> T {
    from[usize::try_from(rng.below(from.len() as u64)).unwrap()]
}

fn spec(rng: &Rng) -> Value {
    let mut spec =
        json!({ "ipFamilyPolicy": pick(rng, &["SingleStack", "PreferDualStack", "RequireDualStack"]) });
    match rng.below(4) {
        0 => spec["clusterIP"] = json!(format!("10.0.{}.{}", rng.below(3), rng.below(12))),
        1 => spec["ipFamilies"] = json!([pick(rng, &["IPv4", "IPv6"])]),
        2 => spec["clusterIP"] = json!(format!("fd00::{}:{}", rng.below(2), rng.below(12))),
        _ => {}
    }
    spec
}

/// Sends one random request, which may be refused.
async fn send_random_request(rest: &Rest, rng: &Rng) {
    let name = format!("s{}", rng.below(NAMES));
    let path = format!("{SERVICES}/{name}");
    let block = rng.below(BLOCKS.len() as u64);
    let (method, path, body) = match rng.below(12) {
        0..=4 => ("POST", SERVICES.to_owned(), service(&name, &spec(rng))),
        5 | 6 => ("DELETE", path, Value::Null),
        7 => {
            let policy = pick(rng, &["SingleStack", "PreferDualStack", "RequireDualStack"]);
            ("PATCH", path, json!({ "spec": { "ipFamilyPolicy": policy } }))
        }
        8 => {
            let name = json!({ "type": "ExternalName", "externalName": "a.b", "ports": null });
            let address = json!({ "type": "ClusterIP", "externalName": null, "ports": [{ "port": 80 }] });
            ("PATCH", path, json!({ "spec": if rng.below(2) == 0 { name } else { address } }))
        }
        9 | 10 => {
            let blocks = BLOCKS[usize::try_from(block).unwrap()];
            ("POST", NETWORKS.to_owned(), network(&format!("n{block}"), blocks))
        }
        _ => ("DELETE", format!("{NETWORKS}/n{block}"), Value::Null),
    };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let reply = rest.call_as(method, &path, kind, body).await;
    let full = reply.code == 500 && reply.text("/message").ends_with("range is full");
    assert!(reply.code < 500 || full, "{method} {path}: {} {}", reply.code, reply.json());
}

/// The oracle: stored objects by key, rebuilt from the history.
#[derive(Default)]
struct AddressOracle {
    objects: BTreeMap<String, Value>,
    given: usize,
}

impl AddressOracle {
    fn of(&self, plural: &str) -> impl Iterator<Item = &Value> {
        let prefix = format!("/registry/{plural}/");
        self.objects.iter().filter(move |(key, _)| key.starts_with(&prefix)).map(|(_, object)| object)
    }

    fn taken(&self) -> Vec<String> {
        let ips = self.of("services").filter(|service| service["spec"]["type"] != "ExternalName");
        let ips =
            ips.flat_map(|service| service["spec"]["clusterIPs"].as_array().cloned().unwrap_or_default());
        // A Service keeps the notation of its addresses; records have the canonical one.
        ips.filter_map(|ip| ip.as_str().unwrap().parse::<IpAddr>().ok()).map(|ip| ip.to_string()).collect()
    }

    fn records(&self) -> BTreeSet<String> {
        self.of("ipaddresses").map(|record| record["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    fn is_given(&self, ip: &str) -> bool {
        let address: IpAddr = ip.parse().unwrap();
        let ready = |cidr: &&Value| {
            let conditions = cidr["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let said = conditions.iter().find(|condition| condition["type"] == "Ready");
            cidr["metadata"]["deletionTimestamp"].is_null()
                && said.is_none_or(|said| said["status"] == "True")
        };
        let mut networks = self.of("servicecidrs").filter(ready);
        networks.any(|cidr| {
            let blocks = cidr["spec"]["cidrs"].as_array().unwrap();
            blocks.iter().any(|block| block.as_str().unwrap().parse::<Cidr>().unwrap().gives(address))
        })
    }

    /// Applies all changes of one revision, then checks the invariants.
    fn revision(&mut self, changes: &[Change]) {
        let (before, at) = (self.records(), changes[0].revision);
        for change in changes {
            match &change.value {
                Some(value) => {
                    // The marks of allocated node ports are not objects.
                    if let Ok(object) = serde_json::from_slice(value) {
                        self.objects.insert(change.key.clone(), object);
                    }
                }
                None => drop(self.objects.remove(&change.key)),
            }
        }
        let (taken, records) = (self.taken(), self.records());
        let distinct: BTreeSet<String> = taken.iter().cloned().collect();
        assert_eq!(distinct.len(), taken.len(), "at {at} two services have one address: {taken:?}");
        assert_eq!(distinct, records, "at {at} records and addresses differ");
        for ip in records.difference(&before) {
            self.given += 1;
            assert!(self.is_given(ip), "at {at} {ip} is given out of no network that is ready");
        }
    }
}

fn check_history(history: &[Change]) -> AddressOracle {
    let mut judge = AddressOracle::default();
    for changes in history.chunk_by(|a, b| a.revision == b.revision) {
        judge.revision(changes);
    }
    judge
}

/// Deletes everything. Networks are deleted when their addresses are released and all servers have observed
/// that.
async fn clear(cluster: &Cluster) {
    let rest = cluster.rest();
    for name in 0..NAMES {
        rest.call("DELETE", &format!("{SERVICES}/s{name}"), "").await;
    }
    for name in 0..BLOCKS.len() {
        rest.call("DELETE", &format!("{NETWORKS}/n{name}"), "").await;
    }
    let list = async |path: &str| {
        let list = rest.call("GET", path, "").await.json();
        super::super::names(&list)
    };
    assert_eq!(list(RECORDS).await, ["10.0.0.1"], "only the API's own service is left");
    let only = async || list(NETWORKS).await == ["kubernetes"];
    cluster.wait_until("the networks are deleted", only).await;
}

#[test]
fn every_address_is_allocated_once_and_from_a_ready_network() {
    let mut given = 0;
    for seed in 0..4 {
        let setup = Setup::seed(seed).nodes(0).service_ranges("10.0.0.0/29,fd00::/125");
        // On an etcd, other writers act between a read and its commit; in the embedded store they cannot.
        let setup = if seed % 2 == 0 { setup } else { setup.on(Storage::Etcd) };
        simulate(setup, async |cluster| {
            let (one, other) = (cluster.rest(), Rest::new(cluster.another_apiserver().await));
            let rng = Rng::seeded(seed);
            for _ in 0..ROUNDS {
                let at_once = (0..CONCURRENT_REQUESTS)
                    .map(|i| send_random_request(if i % 2 == 0 { &one } else { &other }, &rng));
                join_all(at_once).await;
                tokio::time::sleep(Duration::from_millis(rng.below(4_000))).await;
            }
            clear(cluster).await;
            given += check_history(&cluster.history()).given;
        });
    }
    assert!(given > 150, "a test of this needs addresses: {given}");
}
