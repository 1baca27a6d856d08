//! A registry whose watch cache takes the entries of its writes instead of decoding the stored bytes.

use crate::cache::Cache;
use crate::entry::Entry;
use crate::registry::{Decision, Registry, WriteContext};
use crate::request::{DeleteOptions, Target};
use crate::stage::Stage;
use kstore_api::resource::Resource;
use kstore_api::{kind, object};
use kstore_nondet::Nondet;
use kstore_storage::storage::embedded::Embedded;
use kstore_store::{Config, Store};
use serde_json::{Value, json};
use std::sync::Arc;

fn pods() -> &'static Resource {
    kind::lookup("", "v1", "pods").unwrap()
}

fn target(name: &str) -> Target {
    Target { resource: pods(), custom: None, subresource: "", namespace: "ns".into(), name: name.into() }
}

fn pod(name: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": node}, "metadata": {
        "name": name, "namespace": "ns", "uid": name, "labels": {"app": "web"}, "finalizers": ["example.com/wait"]}})
}

struct Server {
    registry: Registry,
    cache: Arc<Cache>,
}

impl Server {
    async fn start() -> Self {
        let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}});
        store.put("/registry/namespaces/ns", object::encode_stored(&namespace)).await.unwrap();
        let (cache, follow) = Cache::fill(Arc::new(Embedded::new(store)), |_| {}).await.unwrap();
        tokio::spawn(follow);
        Self { registry: Registry::new(cache.clone(), Nondet::simulated(1)), cache }
    }

    async fn create(&self, pod: &Value, context: WriteContext) -> Arc<Entry> {
        let target = target(pod["metadata"]["name"].as_str().unwrap());
        self.registry.create(&target, pod.clone(), context, false).await.unwrap()
    }

    /// The entry that the cache has of an object, which is the one that decoding the object makes.
    async fn cached(&self, name: &str) -> Arc<Entry> {
        self.cache.fresh().await.unwrap();
        let entry = self.cache.get(pods(), &target(name).key()).unwrap();
        let raw = self.cache.storage().get(&target(name).key(), entry.revision).await.unwrap().unwrap();
        let decoded = Entry::from_raw(pods(), &raw).unwrap();
        assert_eq!(format!("{entry:?}"), format!("{decoded:?}"));
        entry
    }
}

#[tokio::test(start_paused = true)]
async fn the_cache_has_the_entries_of_creates_updates_and_marked_deletions() {
    let server = Server::start().await;
    let created = server.create(&pod("a", ""), WriteContext::default()).await;
    assert!(server.cached("a").await.shares_strings_with(&created));

    let bind = |_: Option<&Value>| Ok(Decision::Put(pod("a", "n1")));
    let bound = server.registry.guaranteed_update(&target("a"), WriteContext::default(), false, bind).await;
    let cached = server.cached("a").await;
    assert!(cached.shares_strings_with(&bound.unwrap().entry));
    assert_eq!(cached.field("spec.nodeName"), "n1");

    let (a, options) = (target("a"), DeleteOptions::default());
    let deleted = server.registry.delete(&a, &options, WriteContext::default(), false, |_| Ok(()));
    let marked = deleted.await.unwrap();
    assert!(!marked.gone, "its finalizer keeps it");
    assert!(server.cached("a").await.shares_strings_with(&marked.entry));
    assert_eq!(server.cache.announced(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_cache_has_the_entries_of_a_transaction() {
    let server = Server::start().await;
    let stage = Stage::new(server.cache.kinds());
    let context = WriteContext { stage: Some(stage.clone()), ..WriteContext::default() };
    let created =
        [server.create(&pod("a", ""), context.clone()).await, server.create(&pod("b", ""), context).await];
    assert_eq!(server.cache.announced(), 0, "nothing is committed yet");
    server.registry.commit_stage(&stage, &WriteContext::default()).await.unwrap().unwrap();
    for (name, created) in ["a", "b"].into_iter().zip(created) {
        assert!(server.cached(name).await.shares_strings_with(&created));
    }
    assert_eq!(server.cache.announced(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_leaves_no_entry() {
    let server = Server::start().await;
    server.create(&pod("a", ""), WriteContext::default()).await;
    server.cached("a").await;
    let again = server.registry.create(&target("a"), pod("a", "n1"), WriteContext::default(), false).await;
    assert_eq!(again.unwrap_err().code, 409);
    assert_eq!(server.cache.announced(), 0);
}
