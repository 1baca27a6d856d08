//! A client that waits until its cache has seen its own writes, as client-go's ConsistencyStore and controller-runtime do, under watches
//! that are cut after any event: whenever its rule says that the cache is up to date, it is.

use super::CONFIG_MAPS;
use kstore_nondet::Rng;
use kstore_tests::{Cluster, Setup, simulate};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Names of the client's objects; another writer has names of its own.
const NAMES: u64 = 6;

/// UID and revision of an object, by name.
type Objects = BTreeMap<String, (String, i64)>;

/// The cache of an informer, and what its client remembers of its own writes.
struct ConsistencyStore {
    objects: Objects,
    /// The revision of the newest event or bookmark.
    synced: i64,
    /// The revision of the newest answer to an own write.
    written: i64,
    /// UIDs of deleted objects whose events have not come: the answers to deletions have no revision.
    deleted: BTreeSet<String>,
}

fn revision(object: &Value) -> i64 {
    let text = object["metadata"]["resourceVersion"].as_str().expect("objects and lists have revisions");
    assert!(!text.starts_with('0'), "{text}");
    text.parse().expect("a revision is a decimal")
}

fn identity(object: &Value) -> (String, String) {
    let text = |member: &str| object["metadata"][member].as_str().expect("objects have it").to_owned();
    (text("name"), text("uid"))
}

impl ConsistencyStore {
    async fn list(cluster: &Cluster) -> Self {
        let list = cluster.rest().call("GET", CONFIG_MAPS, "").await.json();
        let (objects, deleted) = (Objects::new(), BTreeSet::new());
        let mut store = Self { objects, synced: revision(&list), written: 0, deleted };
        list["items"].as_array().expect("a list has items").iter().for_each(|item| store.keep(item));
        store
    }

    fn keep(&mut self, object: &Value) {
        let (name, uid) = identity(object);
        if name.starts_with("own-") {
            self.objects.insert(name, (uid, revision(object)));
        }
    }

    /// Whether the cache has seen all own writes.
    fn is_ready(&self) -> bool {
        self.synced >= self.written && self.deleted.is_empty()
    }

    /// Continues the watch, and loses its connection after `most` events. Returns the number of events.
    async fn watch(&mut self, cluster: &Cluster, most: usize) -> usize {
        let query =
            format!("watch=1&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion={}", self.synced);
        let reply = cluster.rest().call("GET", &format!("{CONFIG_MAPS}?{query}"), "").await;
        assert_eq!(reply.code, 200, "{}", reply.json());
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        let events: Vec<Value> = text
            .lines()
            .take(most)
            .map(|line| serde_json::from_str(line).expect("an event is JSON"))
            .collect();
        for event in &events {
            let (kind, object) = (event["type"].as_str().expect("a type"), &event["object"]);
            let at = revision(object);
            match kind {
                "BOOKMARK" => assert!(at >= self.synced, "a bookmark at {at} after {}", self.synced),
                _ => assert!(
                    at > self.synced,
                    "{kind} at {at} after {}: one object for each revision",
                    self.synced
                ),
            }
            match kind {
                "ADDED" | "MODIFIED" => self.keep(object),
                "DELETED" => {
                    let (name, uid) = identity(object);
                    self.objects.remove(&name);
                    self.deleted.remove(&uid);
                }
                other => assert_eq!(other, "BOOKMARK", "{event}"),
            }
            self.synced = at;
        }
        events.len()
    }
}

/// One write of the client. Keeps what it knows of its objects, and what it must wait for.
async fn write(cluster: &Cluster, rng: &Rng, truth: &mut Objects, store: &mut ConsistencyStore, round: u64) {
    let rest = cluster.rest();
    let name = format!("own-{}", rng.below(NAMES));
    let path = format!("{CONFIG_MAPS}/{name}");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"own": "yes"}},
        "data": {"round": round.to_string()}});
    match (rng.below(10), truth.contains_key(&name)) {
        (0, _) => {
            let all = format!("{CONFIG_MAPS}?labelSelector=own%3Dyes");
            assert_eq!(rest.call("DELETE", &all, "").await.code, 200);
            store.deleted.extend(std::mem::take(truth).into_values().map(|(uid, _)| uid));
        }
        (1..4, true) => {
            assert_eq!(rest.call("DELETE", &path, "").await.code, 200);
            store.deleted.extend(truth.remove(&name).map(|(uid, _)| uid));
        }
        (_, exists) => {
            let (method, path) = if exists { ("PUT", path.as_str()) } else { ("POST", CONFIG_MAPS) };
            let reply = rest.call(method, path, object.to_string()).await;
            assert!(reply.code < 300, "{method} {path}: {}", reply.json());
            let answer = reply.json();
            truth.insert(name, (identity(&answer).1, revision(&answer)));
            store.written = revision(&answer);
        }
    }
}

#[test]
fn a_cache_that_waits_for_its_own_writes_is_right_whenever_it_says_so() {
    let (mut ready, mut waiting) = (0, 0);
    for seed in 0..4 {
        simulate(Setup::api_alone(), async |cluster| {
            let rng = Rng::seeded(seed);
            let (mut truth, mut store) = (Objects::new(), ConsistencyStore::list(cluster).await);
            for round in 0..60 {
                write(cluster, &rng, &mut truth, &mut store, round).await;
                if rng.below(3) == 0 {
                    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "other-"}});
                    assert_eq!(cluster.rest().call("POST", CONFIG_MAPS, other.to_string()).await.code, 201);
                }
                // Events after which the connection is lost; with the last, none is.
                let most = [0, 1, 2, usize::MAX][usize::try_from(rng.below(4)).expect("a small number")];
                store.watch(cluster, most).await;
                match store.is_ready() {
                    true => assert_eq!(store.objects, truth, "seed {seed}, round {round}"),
                    false => waiting += 1,
                }
                ready += u32::from(store.is_ready());
            }
            // Nothing is lost where the watch was cut: what is left comes.
            while !store.is_ready() {
                assert_ne!(store.watch(cluster, 3).await, 0, "seed {seed}: {:?} never come", store.deleted);
            }
            assert_eq!(store.objects, truth, "seed {seed}");
        });
    }
    assert!(ready > 20 && waiting > 20, "{ready} times ready, {waiting} times not");
}
