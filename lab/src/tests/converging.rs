//! L20 and L12: after faults and resets an informer of kstore shows the state of its cluster. Reads over REST, because plans see of gRPC
//! calls the method alone.

use super::client::TestClient;
use super::{CONFIG_MAPS, config_map, lab};
use crate::clock::Mode;
use crate::host::ComponentChoice;
use http::Method;
use kstore_client::{Client, Gvr, Kubeconfig};
use kstore_informer::{Builder, Informer, Key, Object, Revision};
use kstore_nondet::Rng;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Plans in the gate, each against an informer of its own.
const PLANS: usize = 24;
/// The variable with the number of plans of a longer run; the requirement says 1,000.
const MORE_PLANS: &str = "KSTORE_LAB_INFORMER_PLANS";
/// Informers of a cluster, which is also the number of its plans and caches.
const OF_A_CLUSTER: usize = 6;
/// Clusters at a time.
const CLUSTERS: usize = 8;
/// Writes of a cluster while its plans run.
const WRITES: usize = 24;

/// A ConfigMap as far as an informer must know it.
#[derive(Debug)]
struct CachedMap {
    key: Key,
    uid: String,
    version: String,
    revision: Revision,
}

impl Object for CachedMap {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn revision(&self) -> Revision {
        self.revision
    }
}

fn text(object: &Value, name: &str) -> String {
    object["metadata"][name].as_str().unwrap_or_default().to_owned()
}

/// An informer of all ConfigMaps that is the client `name`.
fn informer(kubeconfig: &Kubeconfig, name: &str, rng: &Rng, stop: &CancellationToken) -> Informer<CachedMap> {
    let client = Client::connect_lazy(kubeconfig, name).unwrap();
    let source = client.rest(Gvr::new("", "v1", "configmaps")).project(|raw| {
        let object: Value = serde_json::from_slice(raw.json())?;
        let version = text(&object, "resourceVersion");
        let (key, uid) =
            (Key::new(&text(&object, "namespace"), &text(&object, "name")), text(&object, "uid"));
        Ok::<_, serde_json::Error>(CachedMap { key, uid, revision: raw.revision_of(&version), version })
    });
    Builder::new(source).name(name).rng(rng).spawn(stop)
}

/// A random plan of two actions against an informer, with a cache of its own.
fn random_plan(rng: &Rng, name: &str) -> Value {
    let request = json!({"request": {"client": name, "nth": 1 + rng.below(2)}});
    let list = json!({"request": {"client": name, "verb": "list"}});
    let watch = json!({"request": {"client": name, "verb": "watch", "nth": 1 + rng.below(2)}});
    let event = json!({"event": {"client": name, "nth": 1 + rng.below(4)}});
    let write = json!({"write": {"resource": "configmaps", "nth": 1 + rng.below(6)}});
    let actions = [
        json!({"action": "error", "trigger": request}),
        json!({"action": "too-many", "seconds": 1, "trigger": request}),
        json!({"action": "unavailable", "how": "reset", "trigger": request}),
        json!({"action": "unavailable", "how": "503", "trigger": list}),
        json!({"action": "timeout", "trigger": request}),
        json!({"action": "forbidden-yet", "trigger": list}),
        json!({"action": "stale-lists", "by": 1 + rng.below(8), "trigger": list}),
        json!({"action": "slow", "for": "50ms", "trigger": request}),
        json!({"action": "cut", "how": "end", "trigger": event}),
        json!({"action": "cut", "how": "reset", "trigger": event}),
        json!({"action": "cut", "how": "frame", "trigger": event}),
        json!({"action": "cut", "how": "end", "after": 0, "trigger": watch}),
        json!({"action": "expire", "trigger": event}),
        json!({"action": "expire", "trigger": watch}),
        json!({"action": "freeze", "cache": name, "trigger": write}),
        json!({"action": "freeze", "cache": name, "resources": ["configmaps"], "trigger": event}),
        json!({"action": "thaw", "cache": name, "resources": ["configmaps"], "step": 1, "trigger": request}),
        json!({"action": "skip", "until": write, "trigger": event}),
    ];
    let one = || actions[usize::try_from(rng.below(actions.len() as u64)).unwrap()].clone();
    json!({"name": name, "actions": [one(), one()]})
}

/// Creates, updates and deletes a few ConfigMaps.
async fn write(client: &TestClient, rng: &Rng) {
    for number in 0..WRITES {
        let name = format!("map-{}", rng.below(6));
        let path = format!("{CONFIG_MAPS}/{name}");
        if rng.below(3) == 0 {
            client.api(Method::DELETE, &path, None).await;
        } else {
            let mut map = config_map(&name);
            map["data"]["n"] = json!(number.to_string());
            if client.api(Method::PUT, &path, Some(map.clone())).await.code == 404 {
                client.api(Method::POST, CONFIG_MAPS, Some(map)).await;
            }
        }
    }
}

/// Names and versions of all ConfigMaps.
async fn state(client: &TestClient) -> BTreeSet<(String, String)> {
    let list = client.api(Method::GET, "/api/v1/configmaps", None).await.body;
    let items = list["items"].as_array().unwrap().iter();
    let name = |object: &Value| Key::new(&text(object, "namespace"), &text(object, "name")).to_string();
    items.map(|object| (name(object), text(object, "resourceVersion"))).collect()
}

/// Runs plans against informers of a new cluster, and waits until each informer shows its state.
async fn converge(admin: TestClient, cluster: u64) {
    let rng = Rng::seeded(cluster);
    let fork = admin.lab(Method::POST, "/clusters", Some(json!({"components": []}))).await;
    assert_eq!(fork.code, 201, "{fork:?}");
    let kubeconfig = fork.body["kubeconfig"].as_str().unwrap();
    let client = TestClient::of(kubeconfig, "writer");
    let kubeconfig = Kubeconfig::parse(kubeconfig, Path::new("")).unwrap();
    let names: Vec<String> = (0..OF_A_CLUSTER).map(|nth| format!("informer-{nth}")).collect();
    let routes = names.iter().map(|name| json!({"client": {"agent": name}, "cache": name}));
    let (routes, stop) = (Value::Array(routes.collect()), CancellationToken::new());
    for name in &names {
        assert_eq!(client.lab(Method::PUT, &format!("/caches/{name}"), None).await.code, 200);
    }
    assert_eq!(client.lab(Method::PUT, "/routes", Some(routes)).await.code, 200);
    let plans: Vec<Value> = names.iter().map(|name| random_plan(&rng, name)).collect();
    for plan in &plans {
        let started = client.lab(Method::POST, "/plans", Some(plan.clone())).await;
        assert_eq!(started.code, 201, "{}", started.body);
    }
    let informers: Vec<_> = names.iter().map(|name| informer(&kubeconfig, name, &rng, &stop)).collect();
    write(&client, &rng).await;
    for name in &names {
        assert_eq!(client.lab(Method::DELETE, &format!("/plans/{name}"), None).await.code, 200);
    }
    let expected = state(&client).await;
    for (informer, plan) in informers.iter().zip(&plans) {
        let shown = || -> BTreeSet<_> {
            let maps = informer.list();
            maps.iter().map(|map| (map.key.to_string(), map.version.clone())).collect()
        };
        for attempt in 0.. {
            if informer.is_synced() && shown() == expected {
                break;
            }
            assert!(attempt < 12_000, "cluster {cluster}: {plan}\n{:?}\n{expected:?}", shown());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    stop.cancel();
    let id = fork.body["id"].as_str().unwrap();
    assert_eq!(admin.lab(Method::DELETE, &format!("/clusters/{id}"), None).await.code, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_informer_that_survives_resets_shows_the_new_state_and_never_goes_back() {
    let (lab, admin) = lab(Mode::Real, ComponentChoice::NONE).await;
    admin.api(Method::POST, CONFIG_MAPS, Some(config_map("prepared"))).await;
    assert_eq!(admin.lab(Method::POST, "/images", Some(json!({"name": "prepared"}))).await.code, 201);
    let begin = json!({"from": {"image": "prepared"}, "name": "a"});
    let fork = admin.lab(Method::POST, "/clusters", Some(begin)).await;
    let kubeconfig = fork.body["kubeconfig"].as_str().unwrap();
    let (client, stop) = (TestClient::of(kubeconfig, "writer"), CancellationToken::new());
    let kubeconfig = Kubeconfig::parse(kubeconfig, Path::new("")).unwrap();
    let informer = informer(&kubeconfig, "survivor", &Rng::seeded(3), &stop);
    let rng = Rng::seeded(5);
    let mut seen = Revision(0);
    for round in 0..2 {
        write(&client, &rng).await;
        assert_eq!(admin.lab(Method::POST, "/clusters/a/reset", None).await.code, 200);
        let name = format!("round-{round}");
        let made = client.api(Method::POST, CONFIG_MAPS, Some(config_map(&name))).await;
        assert_eq!(made.code, 201, "{made:?}");
        informer.until(&Key::new("default", &name), |map| map.is_some()).await.unwrap();
        let shown: BTreeSet<_> =
            informer.list().iter().map(|map| (map.key.to_string(), map.version.clone())).collect();
        assert_eq!(shown, state(&client).await, "round {round}");
        assert!(informer.revision() > seen, "{:?} after {seen:?}", informer.revision());
        seen = informer.revision();
    }
    stop.cancel();
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informers_show_the_state_of_their_cluster_after_the_faults_of_random_plans() {
    let (lab, admin) = lab(Mode::Real, ComponentChoice::NONE).await;
    let plans = std::env::var(MORE_PLANS).map_or(PLANS, |plans| plans.parse().unwrap());
    let clusters: Vec<u64> = (0..plans.div_ceil(OF_A_CLUSTER) as u64).collect();
    for together in clusters.chunks(CLUSTERS) {
        let running = together.iter().map(|cluster| tokio::spawn(converge(admin.clone(), *cluster)));
        for done in futures::future::join_all(running).await {
            done.unwrap();
        }
    }
    lab.end().await;
}
