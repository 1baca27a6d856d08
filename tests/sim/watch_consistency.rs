//! Watches against a model: with concurrent writers, and watchers of any speed and selector, the events equal
//! the history filtered by the selector: without gaps or repeats, in order, and consistent with the initial
//! state and a final list.

use kstore_apiserver::InProcess;
use kstore_client::DeleteParams;
use kstore_nondet::Rng;
use kstore_proto::kstore::v1 as pb;
use kstore_tests::{Change, Cluster, Setup, manifests, simulate};
use pb::kstore_client::KstoreClient;
use pb::watch_event::Type;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const NAMES: u64 = 12;
const WRITERS: usize = 4;
const WRITES: usize = 60;
const WATCHERS: usize = 12;
const COLORS: [&str; 3] = ["red", "green", "blue"];

/// The selection of one watcher.
#[derive(Clone, Debug)]
struct WatchView {
    namespace: &'static str,
    name: String,
    color: &'static str,
}

impl WatchView {
    fn random(rng: &Rng) -> Self {
        let namespace = ["", "", "default", "other"][rng.below(4) as usize];
        let named = !namespace.is_empty() && rng.below(3) == 0;
        let name = if named { format!("c{}", rng.below(NAMES)) } else { String::new() };
        let color = ["", "red", "green"][rng.below(3) as usize];
        Self { namespace, name, color }
    }

    fn request(&self, after_revision: i64, progress: bool) -> pb::WatchRequest {
        let reference = pb::Ref {
            version: "v1".into(),
            resource: "configmaps".into(),
            namespace: self.namespace.into(),
            name: self.name.clone(),
            ..Default::default()
        };
        let labels = if self.color.is_empty() { String::new() } else { format!("color={}", self.color) };
        let selector =
            pb::WatchSelector { r#ref: Some(reference), label_selector: labels, ..Default::default() };
        pb::WatchRequest { selectors: vec![selector], after_revision, progress }
    }

    /// The model's evaluation of the selector.
    fn shows(&self, object: &Value) -> bool {
        let meta = &object["metadata"];
        (self.namespace.is_empty() || meta["namespace"] == self.namespace)
            && (self.name.is_empty() || meta["name"] == self.name.as_str())
            && (self.color.is_empty() || meta["labels"]["color"] == self.color)
    }

    /// The objects of this selection at `revision`: revisions by key.
    fn state(&self, history: &[Change], revision: i64) -> BTreeMap<String, i64> {
        let mut state = BTreeMap::new();
        for change in history.iter().filter(|change| change.revision <= revision) {
            match &change.value {
                Some(value) if self.shows(&parse(value)) => state.insert(change.key.clone(), change.revision),
                _ => state.remove(&change.key),
            };
        }
        state
    }

    /// The events that a watch from `after` must deliver: revision, put or gone, key.
    fn events(&self, history: &[Change], after: i64) -> Vec<(i64, Type, String)> {
        let (mut shown, mut events) = (self.state(history, after), Vec::new());
        for change in history.iter().filter(|change| change.revision > after) {
            let matches = change.value.as_ref().is_some_and(|value| self.shows(&parse(value)));
            let was_shown = if matches {
                shown.insert(change.key.clone(), change.revision).is_some()
            } else {
                shown.remove(&change.key).is_some()
            };
            match (matches, was_shown) {
                (true, _) => events.push((change.revision, Type::Put, change.key.clone())),
                (false, true) => events.push((change.revision, Type::Gone, change.key.clone())),
                (false, false) => {}
            }
        }
        events
    }
}

fn parse(value: &[u8]) -> Value {
    serde_json::from_slice(value).expect("stored objects are JSON")
}

fn key_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap();
    format!("/registry/configmaps/{}/{}", text("namespace"), text("name"))
}

/// Creates, changes, relabels and deletes the same few objects as the other writers.
async fn write(cluster: &Cluster, rng: Rng) {
    let api = cluster.resource("configmaps");
    for n in 0..WRITES {
        let namespace = ["default", "other"][rng.below(2) as usize];
        let name = format!("c{}", rng.below(NAMES));
        let color = COLORS[rng.below(3) as usize];
        let labels = json!({ "color": color });
        let outcome = match rng.below(4) {
            0 => api.delete(namespace, &name, &DeleteParams::default()).await.map(drop),
            1 | 2 => {
                let patch = json!({ "metadata": { "labels": labels }, "data": { "n": n.to_string() } });
                api.patch(namespace, &name, "", &kstore_client::Patch::Merge(patch)).await.map(drop)
            }
            _ => {
                let mut object = manifests::config_map(&name, "1");
                object["metadata"]["labels"] = labels;
                object["metadata"]["namespace"] = json!(namespace);
                api.create(namespace, &object).await.map(drop)
            }
        };
        if let Err(error) = outcome {
            assert!(error.is_not_found() || error.is_already_exists(), "{error}");
        }
        pause(&rng).await;
    }
}

/// Yields to other tasks: not at all, once, or for some virtual time.
async fn pause(rng: &Rng) {
    match rng.below(4) {
        0 => tokio::task::yield_now().await,
        1 => tokio::time::sleep(Duration::from_millis(rng.below(50))).await,
        _ => {}
    }
}

/// The events that a watcher received.
struct WatchLog {
    view: WatchView,
    /// `None` if the watch began with the initial state.
    after: Option<i64>,
    initial: BTreeMap<String, i64>,
    initial_at: i64,
    events: Vec<(i64, Type, String)>,
    at: i64,
}

/// Watches at its own pace up to the final revision; sometimes disconnects and resumes.
async fn watch(
    mut client: KstoreClient<InProcess>,
    rng: Rng,
    newest: impl AsyncFn() -> i64,
    last: impl AsyncFn() -> i64,
) -> WatchLog {
    tokio::time::sleep(Duration::from_millis(rng.below(600))).await;
    let view = WatchView::random(&rng);
    let current = newest().await;
    let after = (rng.below(2) == 0).then(|| current - rng.below(40.min(current as u64)) as i64);
    let mut seen = WatchLog {
        view: view.clone(),
        after,
        initial: BTreeMap::new(),
        initial_at: 0,
        events: Vec::new(),
        at: after.unwrap_or(0),
    };
    let mut stream = client.watch(view.request(seen.at, true)).await.unwrap().into_inner();
    loop {
        if rng.below(12) == 0 && seen.at > 0 {
            stream = client.watch(view.request(seen.at, true)).await.unwrap().into_inner();
        }
        let batch = stream.message().await.unwrap().expect("the stream continues");
        for event in &batch.events {
            let object = parse(&event.json);
            assert_eq!(object["metadata"]["resourceVersion"], event.revision.to_string());
            if seen.at == 0 {
                assert_eq!(event.r#type(), Type::Put, "a state has no deletions");
                seen.initial.insert(key_of(&object), event.revision);
            } else {
                assert!(event.revision > seen.at, "a batch is newer than all before it");
                seen.events.push((event.revision, event.r#type(), key_of(&object)));
            }
        }
        if batch.initial_done {
            seen.initial_at = batch.revision;
        }
        assert!(batch.revision >= seen.at, "a stream does not go back");
        seen.at = batch.revision;
        if seen.at >= last().await {
            return seen;
        }
        pause(&rng).await;
    }
}

fn check(seen: &WatchLog, history: &[Change], list: &BTreeMap<String, i64>) {
    let begin = seen.after.unwrap_or(seen.initial_at);
    if seen.after.is_none() {
        assert_eq!(seen.initial, seen.view.state(history, begin), "{:?}: the state at {begin}", seen.view);
    }
    assert_eq!(seen.events, seen.view.events(history, begin), "{:?}: the events after {begin}", seen.view);
    let mut state = seen.view.state(history, begin);
    for (revision, kind, key) in &seen.events {
        match kind {
            Type::Put => state.insert(key.clone(), *revision),
            Type::Gone => state.remove(key),
        };
    }
    assert_eq!(&state, list, "{:?}: state and events lead to the list", seen.view);
}

async fn race(cluster: &Cluster, seed: u64) {
    let rng = Rng::seeded(seed);
    cluster.create(manifests::namespace("other")).await;
    let writing = std::cell::Cell::new(WRITERS);
    let newest = async || cluster.store().revision().0;
    // While writers run, the last revision is unknown.
    let last = async || if writing.get() == 0 { cluster.store().revision().0 } else { i64::MAX };
    let writers = (0..WRITERS).map(async |n| {
        write(cluster, rng.fork(&format!("writer {n}"))).await;
        writing.set(writing.get() - 1);
    });
    // Every second watcher uses an apiserver without a cache of the past, which reads it from the storage.
    write(cluster, rng.fork("before")).await;
    let servers = [cluster.in_process(), cluster.another_apiserver().await];
    let client = |n: usize| KstoreClient::new(servers[n % 2].clone());
    let watchers = (0..WATCHERS).map(|n| watch(client(n), rng.fork(&format!("watcher {n}")), newest, last));
    let (_, seen) =
        futures::future::join(futures::future::join_all(writers), futures::future::join_all(watchers)).await;

    let mut history = cluster.history();
    history.retain(|change| change.key.starts_with("/registry/configmaps/"));
    assert!(history.len() > WRITERS * WRITES / 4, "the writers wrote: {}", history.len());
    for seen in seen {
        let objects = cluster.list("configmaps", "").await;
        let shown = objects.iter().filter(|object| seen.view.shows(object));
        let version =
            |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        check(&seen, &history, &shown.map(|object| (key_of(object), version(object))).collect());
    }
}

#[test]
fn every_watch_shows_the_history_as_its_selector_sees_it() {
    for seed in 1..=6 {
        simulate(Setup { seed, ..Setup::api_alone() }, async |cluster| race(cluster, seed).await);
    }
}

#[test]
fn every_watch_shows_the_history_on_several_threads() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    runtime.block_on(async {
        let cluster = Cluster::start(Setup::api_alone()).await;
        race(&cluster, 1).await;
        cluster.stop().await;
    });
}

#[test]
fn equal_seeds_give_equal_races() {
    let run = || {
        simulate(Setup::api_alone(), async |cluster| {
            race(cluster, 99).await;
            cluster.history()
        })
    };
    assert_eq!(run(), run());
}
