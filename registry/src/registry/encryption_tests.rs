//! A registry over an encrypted store: bytes at rest, rotation, errors, and reloads of the configuration.

use crate::cache::{Cache, Filter, Watch, WatchStart};
use crate::registry::{Decision, Registry, UpdateEffect, WriteContext};
use crate::request::{DeleteOptions, GetOptions, ListAt, ListOptions, Target};
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_api::{kind, object};
use kstore_nondet::{Nondet, Rng};
use kstore_storage::encryption::Encryption;
use kstore_storage::storage::embedded::Embedded;
use kstore_store::{Config, Store};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn secrets() -> &'static Resource {
    kind::lookup("", "v1", "secrets").unwrap()
}

fn target(name: &str) -> Target {
    Target { resource: secrets(), custom: None, subresource: "", namespace: "ns".into(), name: name.into() }
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "ns", "uid": "u"}, "data": {"p": "cGxhaW4="}})
}

/// Writes a configuration whose providers are secretbox with these keys, then identity on request.
fn write_config(path: &Path, keys: &[&str], identity: bool) {
    let key = |name: &&str| json!({"name": name, "secret": base64_key(name)});
    let mut providers = vec![json!({"secretbox": {"keys": keys.iter().map(key).collect::<Vec<_>>()}})];
    if identity {
        providers.push(json!({"identity": {}}));
    }
    let config = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": providers}]});
    std::fs::write(path, config.to_string()).unwrap();
}

fn base64_key(name: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode([name.as_bytes()[0]; 32])
}

struct Server {
    store: Store,
    registry: Registry,
    cache: Arc<Cache>,
    encryption: Arc<Encryption>,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

async fn new_store() -> Store {
    let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}});
    store.put("/registry/namespaces/ns", object::encode_stored(&namespace)).await.unwrap();
    store
}

impl Server {
    async fn over(store: Store, keys: &[&str], identity: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("encryption.json");
        write_config(&path, keys, identity);
        let encryption = Arc::new(Encryption::open(&path, "/registry", Rng::seeded(1)).unwrap());
        let storage = encryption.over(Arc::new(Embedded::new(store.clone())));
        let (cache, follow) = Cache::fill(storage, |_| {}).await.unwrap();
        tokio::spawn(follow);
        tokio::spawn(encryption.clone().reload_changes(path.clone()));
        let registry = Registry::new(cache.clone(), Nondet::simulated(1));
        Self { store, registry, cache, encryption, path, _dir: dir }
    }

    fn stored(&self, name: &str) -> Vec<u8> {
        self.store.get(target(name).key()).unwrap().unwrap().value().to_vec()
    }

    async fn create(&self, name: &str) {
        self.registry.create(&target(name), secret(name), WriteContext::default(), false).await.unwrap();
    }

    /// Stores the object again as it is.
    async fn rewrite(&self, name: &str) -> UpdateEffect {
        // The cache may not show the object yet; a refusal is made again on the newest state.
        let absent = || Status::not_found(secrets(), name);
        let same = |current: Option<&Value>| Ok(Decision::Put(current.ok_or_else(absent)?.clone()));
        let done = self.registry.guaranteed_update(&target(name), WriteContext::default(), false, same).await;
        done.unwrap().effect
    }

    async fn get(&self, name: &str) -> Result<Value, String> {
        let got = self.registry.get(&target(name), &GetOptions::default()).await;
        got.map(|entry| entry.parse()["data"].clone()).map_err(|status| status.message)
    }

    async fn list(&self, namespace: &str) -> Result<Vec<String>, String> {
        let filter = Filter { namespace: namespace.into(), ..Filter::all(secrets()) };
        let options = ListOptions { filter, limit: 0, continue_token: String::new(), at: ListAt::Newest };
        let listed = self.registry.list(&options).await.map_err(|status| status.message)?;
        Ok(listed.items.iter().map(|entry| entry.name().to_owned()).collect())
    }
}

fn starts(stored: &[u8], prefix: &str) -> bool {
    stored.starts_with(prefix.as_bytes())
}

#[tokio::test(start_paused = true)]
async fn values_are_encrypted_at_rest_and_plain_in_the_cache_and_in_watches() {
    let server = Server::over(new_store().await, &["a"], false).await;
    let mut watch =
        Watch::start(server.cache.clone(), vec![Filter::all(secrets())], WatchStart::State).await.unwrap();
    watch.initial();
    server.create("s").await;
    assert!(starts(&server.stored("s"), "k8s:enc:secretbox:v1:a:"));
    assert_eq!(server.get("s").await.unwrap(), json!({"p": "cGxhaW4="}));
    let seen = watch.next().await.unwrap();
    assert_eq!(seen.deliveries[0].change.any().parse()["data"]["p"], "cGxhaW4=");
    let namespace = server.store.get("/registry/namespaces/ns").unwrap().unwrap();
    assert!(namespace.value().starts_with(b"{"), "other resources are stored as they are");
    // From the history, as a watch that resumes far back.
    let exact = GetOptions { exact: server.cache.revision(), ..GetOptions::default() };
    let old = server.registry.get(&target("s"), &exact).await.unwrap();
    assert_eq!(old.parse()["data"]["p"], "cGxhaW4=");
}

#[tokio::test(start_paused = true)]
async fn an_update_with_equal_content_is_a_write_only_if_the_key_is_old() {
    let server = Server::over(new_store().await, &["a"], true).await;
    server.create("s").await;
    assert_eq!(server.rewrite("s").await, UpdateEffect::Unchanged);
    write_config(&server.path, &["b", "a"], true);
    tokio::time::sleep(kstore_storage::limits::ENCRYPTION_RELOAD * 2).await;
    assert!(server.get("s").await.is_ok());
    assert_eq!(server.rewrite("s").await, UpdateEffect::Changed);
    assert!(starts(&server.stored("s"), "k8s:enc:secretbox:v1:b:"));
    assert_eq!(server.rewrite("s").await, UpdateEffect::Unchanged);
    // Values from before encryption.
    server.store.put(target("old").key(), object::encode_stored(&secret("old"))).await.unwrap();
    server.cache.fresh().await.unwrap();
    assert_eq!(server.rewrite("old").await, UpdateEffect::Changed);
    assert!(starts(&server.stored("old"), "k8s:enc:secretbox:v1:b:"));
}

#[tokio::test(start_paused = true)]
async fn objects_that_cannot_be_decrypted_are_errors_and_are_not_deleted() {
    let store = new_store().await;
    Server::over(store.clone(), &["a"], false).await.create("lost").await;
    let server = Server::over(store.clone(), &["b"], false).await;
    server.create("s").await;
    let reason = "no matching key was found for the provided Secretbox transformer";
    assert_eq!(server.get("lost").await.unwrap_err(), format!("Internal error occurred: {reason}"));
    assert_eq!(server.get("s").await.unwrap(), json!({"p": "cGxhaW4="}));
    let refused =
        format!("Internal error occurred: unable to transform key \"/registry/secrets/ns/lost\": {reason}");
    assert_eq!(server.list("ns").await.unwrap_err(), refused);
    assert_eq!(server.list("").await.unwrap_err(), refused);
    assert_eq!(server.list("other").await.unwrap(), Vec::<String>::new());
    let lost = target("lost");
    let options = DeleteOptions::default();
    let deleted = server.registry.delete(&lost, &options, WriteContext::default(), false, |_| Ok(()));
    assert_eq!(deleted.await.unwrap_err().code, 500);
    let created = server.registry.create(&lost, secret("lost"), WriteContext::default(), false).await;
    assert_eq!(created.unwrap_err().code, 409);

    // Without any configuration.
    let (cache, follow) = Cache::fill(Arc::new(Embedded::new(store)), |_| {}).await.unwrap();
    tokio::spawn(follow);
    let registry = Registry::new(cache, Nondet::simulated(1));
    let got = registry.get(&lost, &GetOptions::default()).await.unwrap_err();
    assert_eq!(got.message, "Internal error occurred: identity transformer tried to read encrypted data");
}

#[tokio::test(start_paused = true)]
async fn a_reload_makes_lost_objects_readable_and_an_invalid_file_changes_nothing() {
    let store = new_store().await;
    Server::over(store.clone(), &["a"], false).await.create("s").await;
    let server = Server::over(store, &["b"], false).await;
    assert!(server.get("s").await.is_err());
    std::fs::write(&server.path, "{").unwrap();
    tokio::time::sleep(kstore_storage::limits::ENCRYPTION_RELOAD * 2).await;
    server.create("t").await;
    assert!(starts(&server.stored("t"), "k8s:enc:secretbox:v1:b:"), "the earlier configuration stays");
    write_config(&server.path, &["b", "a"], false);
    tokio::time::sleep(kstore_storage::limits::ENCRYPTION_RELOAD * 2).await;
    assert_eq!(server.get("s").await.unwrap(), json!({"p": "cGxhaW4="}));
    assert_eq!(server.list("").await.unwrap(), ["s", "t"]);
    assert!(!server.encryption.take_failure());
}
