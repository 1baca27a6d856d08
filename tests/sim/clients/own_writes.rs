//! Clients that read their own writes: after a write they wait until their cache has seen the revision of the answer, and then expect the
//! write there. With kube-rs' watcher and with kstore's informer, over connections whose watches end after any byte.

use axum::body::Body;
use futures::{StreamExt as _, TryStreamExt as _};
use http_body_util::{BodyDataStream, BodyExt as _, Full, StreamBody};
use k8s_openapi::api::core::v1::ConfigMap;
use kstore_apiserver::InProcess;
use kstore_informer::kube::{Kube, KubeSource};
use kstore_informer::{Builder, Informer, Key, Revision};
use kstore_nondet::Rng;
use kstore_tests::{Cluster, Setup, simulate};
use kube_client::api::{Api, ResourceExt as _};
use kube_runtime::watcher::{self, Event, InitialListStrategy, watcher};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// Upper bound in virtual time of every wait. Clients wait longer and longer before they connect again.
const PATIENCE: Duration = Duration::from_secs(60 * 60);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: u64 = 3;
const WRITES: u64 = 60;
/// Objects of one writer.
const NAMES: u64 = 4;

/// A connection whose watches each end after a random number of bytes.
#[derive(Clone)]
struct CutConnection {
    api: InProcess,
    rng: Arc<Rng>,
}

impl CutConnection {
    async fn answer<B>(self, request: http::Request<B>) -> Result<http::Response<Body>, Infallible>
    where
        B: http_body::Body + Send + 'static,
        B::Error: std::fmt::Debug,
    {
        let (parts, body) = request.into_parts();
        let is_watch = parts.uri.query().is_some_and(|query| query.contains("watch="));
        let body = body.collect().await.expect("requests have bodies in memory").to_bytes();
        let response = self.api.oneshot(http::Request::from_parts(parts, Full::new(body))).await?;
        if !is_watch {
            return Ok(response.map(Body::new));
        }
        let (parts, body) = response.into_parts();
        let mut left = 1 + self.rng.below(6000) as usize;
        let cut = BodyDataStream::new(body).map_err(|error| panic!("{error}")).scan((), move |(), chunk| {
            let chunk: Result<bytes::Bytes, Infallible> = chunk;
            let chunk = chunk.expect("a service in process does not fail");
            let taken = left.min(chunk.len());
            left -= taken;
            let frame =
                (taken > 0).then(|| Ok::<_, Infallible>(http_body::Frame::data(chunk.slice(..taken))));
            futures::future::ready(frame)
        });
        Ok(http::Response::from_parts(parts, Body::new(StreamBody::new(cut))))
    }

    fn client(&self) -> kube_client::Client {
        let connection = self.clone();
        let service = tower::service_fn(move |request: http::Request<kube_client::client::Body>| {
            connection.clone().answer(request)
        });
        kube_client::Client::new(service, "default")
    }
}

/// A cache of ConfigMaps that can wait for a revision.
trait OwnCache {
    /// Waits until the cache has its initial state: a deletion before it is no event.
    async fn synced(&self);
    /// Waits until the cache has seen this revision.
    async fn wait_for(&self, revision: i64);
    /// The uid and revision of an object.
    fn get(&self, name: &str) -> Option<(String, i64)>;
}

fn revision_of(map: &ConfigMap) -> i64 {
    map.resource_version().and_then(|version| version.parse().ok()).expect("a decimal resource version")
}

/// What kube-rs' watcher has delivered: the highest revision of any event, as controller-runtime counts it, without bookmarks.
#[derive(Default)]
struct Delivered {
    highest: i64,
    is_synced: bool,
    maps: BTreeMap<String, (String, i64)>,
    /// Objects of a list that is not complete.
    listed: BTreeMap<String, (String, i64)>,
}

impl Delivered {
    fn apply(&mut self, event: Event<ConfigMap>) {
        let entry = |map: &ConfigMap| (map.name_any(), (map.uid().unwrap(), revision_of(map)));
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(map) => {
                let (name, found) = entry(&map);
                self.highest = self.highest.max(found.1);
                self.listed.insert(name, found);
            }
            Event::InitDone => {
                self.maps = std::mem::take(&mut self.listed);
                self.is_synced = true;
            }
            Event::Apply(map) => {
                let (name, found) = entry(&map);
                self.highest = self.highest.max(found.1);
                self.maps.insert(name, found);
            }
            Event::Delete(map) => {
                let (name, (_, revision)) = entry(&map);
                self.highest = self.highest.max(revision);
                self.maps.remove(&name);
            }
        }
    }
}

/// A cache that kube-rs' watcher fills.
struct KubeCache(Arc<SharedDelivered>);

#[derive(Default)]
struct SharedDelivered {
    delivered: Mutex<Delivered>,
    changed: Notify,
}

impl KubeCache {
    fn start(client: kube_client::Client, initial_list_strategy: InitialListStrategy) -> Self {
        let shared = Arc::new(SharedDelivered::default());
        let config = watcher::Config { initial_list_strategy, ..watcher::Config::default() };
        let events = watcher(Api::<ConfigMap>::namespaced(client, "default"), config);
        let filled = shared.clone();
        tokio::spawn(async move {
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => filled.delivered.lock().apply(event),
                    // The watcher resumes.
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
                filled.changed.notify_waiters();
            }
        });
        Self(shared)
    }

    async fn until(&self, is_reached: impl Fn(&Delivered) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if is_reached(&self.0.delivered.lock()) {
                return;
            }
            changed.await;
        }
    }
}

impl OwnCache for KubeCache {
    async fn synced(&self) {
        tokio::time::timeout(PATIENCE, self.until(|delivered| delivered.is_synced)).await.expect("a list");
    }

    async fn wait_for(&self, revision: i64) {
        let reached = self.until(|delivered| delivered.highest >= revision);
        tokio::time::timeout(PATIENCE, reached).await.expect("the revision is delivered");
    }

    fn get(&self, name: &str) -> Option<(String, i64)> {
        self.0.delivered.lock().maps.get(name).cloned()
    }
}

struct InformerCache(Informer<Kube<ConfigMap>>);

impl OwnCache for InformerCache {
    async fn synced(&self) {
        tokio::time::timeout(PATIENCE, self.0.synced()).await.expect("a list").unwrap();
    }

    async fn wait_for(&self, revision: i64) {
        let seen = self.0.wait_for(Revision(revision.unsigned_abs()));
        tokio::time::timeout(PATIENCE, seen).await.expect("the revision is delivered").unwrap();
    }

    fn get(&self, name: &str) -> Option<(String, i64)> {
        let found = self.0.get(&Key::new("default", name))?;
        Some((found.uid().unwrap(), revision_of(&found)))
    }
}

/// What a writer's last answer says about an object: its uid and revision, or that it is gone.
type Expected = BTreeMap<String, Option<(String, i64)>>;

/// One writer's random writes of its own objects. After each it waits for the revision of the answer and expects every one of its objects
/// in the cache as its own answers say.
async fn write(cluster: &Cluster, rng: &Rng, writer: u64, cache: &impl OwnCache) {
    let mut expected = Expected::new();
    cache.synced().await;
    for round in 0..WRITES {
        let name = format!("w{writer}-{}", rng.below(NAMES));
        let one = format!("{MAPS}/{name}");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"writer": writer.to_string()}},
            "data": {"round": round.to_string()}});
        let merge = |patch: Value| ("PATCH", one.clone(), "application/merge-patch+json", patch);
        let (method, path, content, body) = match rng.below(9) {
            0..=2 => ("POST", MAPS.to_owned(), "application/json", map),
            3 => ("PUT", one.clone(), "application/json", map),
            4 => merge(json!({"data": {"round": round.to_string()}})),
            5 => ("PATCH", format!("{one}?fieldManager=t&force=true"), "application/apply-patch+yaml", map),
            6 => merge(
                json!({"metadata": {"finalizers": if rng.below(2) == 0 { json!(["x.io/y"]) } else { Value::Null }}}),
            ),
            7 => ("DELETE", one.clone(), "application/json", Value::Null),
            _ => {
                ("DELETE", format!("{MAPS}?labelSelector=writer%3D{writer}"), "application/json", Value::Null)
            }
        };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = cluster.rest().call_as(method, &path, content, body).await;
        if !(200..=201).contains(&reply.code) {
            assert!(
                [404, 409, 422].contains(&reply.code),
                "{method} {path}: {} {}",
                reply.code,
                reply.text("/message")
            );
            continue;
        }
        if path.contains("labelSelector") {
            // The answer is the list before the deletion: the revisions of the deletions are those of the next answers at most.
            expected.clear();
            continue;
        }
        let revision: i64 =
            reply.text("/metadata/resourceVersion").parse().expect("every answer has a revision");
        let object = reply.json();
        let is_terminating = object["metadata"]["deletionTimestamp"].is_string();
        let is_gone = object["kind"] == "Status"
            || (is_terminating && object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty));
        let found = (!is_gone).then(|| (reply.text("/metadata/uid"), revision));
        expected.insert(name, found);
        cache.wait_for(revision).await;
        for (name, wanted) in &expected {
            assert_eq!(&cache.get(name), wanted, "{method} {path} at {revision}: {name}");
        }
    }
}

/// Writers beside each other, each with the cache of `start`.
fn converse<C: OwnCache>(seed: u64, start: impl Fn(kube_client::Client) -> C) {
    simulate(Setup::api_alone(), async |cluster| {
        let writers = (0..WRITERS).map(|writer| {
            let rng = Arc::new(Rng::seeded(seed * WRITERS + writer));
            let connection = CutConnection { api: cluster.in_process(), rng: rng.clone() };
            let cache = start(connection.client());
            async move { write(cluster, &rng, writer, &cache).await }
        });
        futures::future::join_all(writers).await;
    });
}

#[test]
fn kube_rs_reads_its_own_writes_under_cut_connections() {
    for seed in 0..3 {
        let strategy = || match seed % 2 {
            0 => InitialListStrategy::ListWatch,
            _ => InitialListStrategy::StreamingList,
        };
        converse(seed, |client| KubeCache::start(client, strategy()));
    }
}

#[test]
fn the_informer_reads_its_own_writes_under_cut_connections() {
    for seed in 0..3 {
        converse(seed, |client| {
            let source = KubeSource::<Kube<ConfigMap>>::new(&client).namespace("default");
            InformerCache(Builder::new(source).spawn(&CancellationToken::new()))
        });
    }
}
