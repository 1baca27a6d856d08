//! Crash tests of the program: SIGKILL at any moment, in the middle of a burst of writes, then a restart.
//! Acknowledged writes are present, unacknowledged ones are complete or absent, revisions continue, and the
//! cluster works.

use crate::SERVER;
use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kstore_client::{Client, DynamicApi, Gvr, ListParams};
use kstore_nondet::Rng;
use kstore_tests::wait::{self, rolled_out, watch_until};
use kstore_tests::{Launch, Server, manifests};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

const CREATES: usize = 500;
const CONNECTIONS: usize = 4;
/// Number of requests in flight per connection.
const IN_FLIGHT: usize = 8;

/// Expected and possible objects, over all lifetimes of the server.
#[derive(Default)]
struct Ledger {
    /// Objects as the server acknowledged them, by name.
    answered: BTreeMap<String, Value>,
    /// Names of requested objects without an acknowledgement.
    unknown: BTreeSet<String>,
}

/// Object `n` of a lifetime. Every fifth is a Service, whose address is claimed by further keys in the same
/// transaction.
fn object(life: usize, n: usize) -> Value {
    let name = format!("life{life}-{n:03}");
    if n.is_multiple_of(5) {
        let spec = json!({ "ports": [{ "port": 80 }], "selector": { "app": name } });
        return json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name }, "spec": spec });
    }
    manifests::config_map(&name, &name.repeat(20))
}

fn api(client: &Client, object: &Value) -> DynamicApi {
    client.dynamic(if object["kind"] == "Service" { Gvr::of::<Service>() } else { Gvr::of::<ConfigMap>() })
}

/// Creates objects over several connections at once. Kills the server after `until` acknowledged creates.
async fn burst(server: Server, life: usize, until: usize, ledger: &mut Ledger) {
    let (count, full) = (Cell::new(0), tokio::sync::Notify::new());
    let answers = RefCell::new(Vec::new());
    let clients = futures::future::join_all((0..CONNECTIONS).map(|_| server.client("burst"))).await;
    let creates = (0..CREATES).map(async |n| {
        let object = object(life, n);
        let outcome = api(&clients[n % CONNECTIONS], &object).create("default", &object).await;
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        count.set(count.get() + usize::from(outcome.is_ok()));
        if count.get() >= until {
            full.notify_one();
        }
        answers.borrow_mut().push((name, outcome.ok()));
    });
    let creating =
        futures::stream::iter(creates).buffer_unordered(CONNECTIONS * IN_FLIGHT).for_each(async |()| {});
    let killing = async {
        full.notified().await;
        server.kill();
    };
    futures::future::join(creating, killing).await;
    for (name, answer) in answers.into_inner() {
        match answer {
            Some(object) => drop(ledger.answered.insert(name, object)),
            None => drop(ledger.unknown.insert(name)),
        }
    }
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// All objects of all lifetimes by name, and the revision of the store.
async fn stored(client: &Client) -> (BTreeMap<String, Value>, u64) {
    let mut all = BTreeMap::new();
    let mut newest = 0;
    for gvr in [Gvr::of::<ConfigMap>(), Gvr::of::<Service>()] {
        let (objects, at) = client.dynamic(gvr).list("default", &ListParams::default()).await.unwrap();
        newest = newest.max(at.0);
        let ours = objects
            .into_iter()
            .map(|object| (object["metadata"]["name"].as_str().unwrap().to_owned(), object));
        all.extend(ours.filter(|(name, _)| name.starts_with("life")));
    }
    (all, newest)
}

/// Compares the stored objects with the acknowledged ones.
async fn check(client: &Client, ledger: &mut Ledger) {
    let (stored, newest) = stored(client).await;
    for (name, answered) in &ledger.answered {
        assert_eq!(stored.get(name), Some(answered), "{name} was answered");
    }
    let mut addresses = BTreeSet::new();
    let mut revisions = BTreeSet::new();
    for (name, object) in &stored {
        assert!(
            ledger.answered.contains_key(name) || ledger.unknown.contains(name),
            "{name} was never requested"
        );
        assert!(
            revisions.insert(revision(object)) && revision(object) <= newest,
            "{name} has a revision of its own"
        );
        match object["kind"].as_str().unwrap() {
            "Service" => {
                let address = object["spec"]["clusterIP"].as_str().unwrap();
                assert!(
                    address.starts_with("10.") && addresses.insert(address.to_owned()),
                    "{name}: {address}"
                );
            }
            _ => assert_eq!(object["data"]["value"], name.repeat(20), "{name} is whole"),
        }
    }
    // An unacknowledged object that survived once must survive from now on.
    ledger.answered.extend(stored);
    ledger.unknown.clear();
}

/// Checks that the cluster works: a deployment of this lifetime becomes ready, and those of earlier ones
/// still are.
async fn check_cluster_works(client: &Client, life: usize, ledger: &Ledger) {
    let deployments = client.dynamic(Gvr::of::<Deployment>());
    let created =
        deployments.create("default", &manifests::deployment(&format!("app{life}"), 2)).await.unwrap();
    let last = ledger.answered.values().map(revision).max().unwrap_or_default();
    assert!(revision(&created) > last, "revisions go on");
    for n in 0..=life {
        watch_until(client, Gvr::of::<Deployment>(), "default", &format!("app{n}"), rolled_out).await;
    }
}

/// Runs this many lifetimes on one data directory, each ended by SIGKILL.
async fn run_lifetimes(args: &[&str], run_lifetimes: usize) {
    let rng = Rng::from_os();
    let dir = tempfile::tempdir().unwrap();
    let launch = Launch::on_disk(SERVER, dir.path()).args(args).args(&["--nodes", "2"]);
    let mut ledger = Ledger::default();
    let moments: Vec<_> = (0..run_lifetimes).map(|_| 1 + rng.below(CREATES as u64 - 1) as usize).collect();
    eprintln!("{args:?}: killed after these many answers: {moments:?}");
    for (life, until) in moments.into_iter().enumerate() {
        let server = launch.start().unwrap();
        let client = server.client("crash-test").await;
        check(&client, &mut ledger).await;
        check_cluster_works(&client, life, &ledger).await;
        burst(server, life, until, &mut ledger).await;
        assert!(ledger.answered.len() >= until);
    }
    let server = launch.start().unwrap();
    let client = server.client("crash-test").await;
    check(&client, &mut ledger).await;
    check_cluster_works(&client, run_lifetimes, &ledger).await;
}

fn connected<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

#[test]
fn ten_kills_during_creates_lose_no_acknowledged_write() {
    connected(run_lifetimes(&[], 10));
}

#[test]
fn kills_lose_no_acknowledged_write_with_sled() {
    connected(run_lifetimes(&["--engine", "sled"], 3));
}

#[test]
fn kills_lose_no_acknowledged_write_with_relaxed_durability() {
    connected(run_lifetimes(&["--durability", "relaxed"], 3));
}

#[test]
fn a_kill_during_the_first_start_leaves_a_usable_directory() {
    let rng = Rng::from_os();
    for _ in 0..5 {
        let dir = tempfile::tempdir().unwrap();
        let launch = Launch::on_disk(SERVER, dir.path());
        let moment = Duration::from_millis(rng.below(300));
        eprintln!("killed after {moment:?}");
        connected(async { launch.start_and_kill(tokio::time::sleep(moment)).await });
        drop(launch.start().unwrap());
    }
}

#[test]
fn a_shutdown_with_open_watches_is_quick_and_complete() {
    use kstore_informer::{ListerWatcher as _, ReadAt, Start};
    const START: Start = Start::Initial(ReadAt::Latest);
    let dir = tempfile::tempdir().unwrap();
    let launch = Launch::on_disk(SERVER, dir.path());
    let server = launch.start().unwrap();
    connected(async {
        let client = server.client("crash-test").await;
        let mut ledger = Ledger::default();
        check_cluster_works(&client, 0, &ledger).await;
        // A watch is open during the shutdown, whose limit is two seconds.
        let watch = client.dynamic(Gvr::of::<ConfigMap>());
        let created = watch.create("default", &object(0, 1)).await.unwrap();
        ledger.answered.insert("life0-001".to_owned(), created);
        let mut running = Some((server, watch));
        wait::within("a shutdown", Duration::from_secs(3), async || {
            let (server, watch) = match running.take() {
                Some(first) => first,
                None => {
                    let server = launch.start().unwrap();
                    let watch = server.client("crash-test").await.dynamic(Gvr::of::<ConfigMap>());
                    (server, watch)
                }
            };
            let mut frames = watch.source(Default::default()).watch(START).await.unwrap();
            frames.next().await.unwrap().unwrap();
            let asked = Instant::now();
            let status = server.terminate();
            assert!(status.success(), "{status}");
            asked.elapsed()
        })
        .await;
        let server = launch.start().unwrap();
        let client = server.client("crash-test").await;
        check(&client, &mut ledger).await;
        check_cluster_works(&client, 1, &ledger).await;
    });
}
