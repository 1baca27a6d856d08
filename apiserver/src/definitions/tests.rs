//! The deletion of a definition on a storage that panics and fails.

use crate::config::ServerConfig;
use crate::server::ApiServer;
use async_trait::async_trait;
use axum::body::Body;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use kstore_api::version::Minor;
use kstore_nondet::Nondet;
use kstore_registry::user::UserInfo;
use kstore_storage::storage::embedded::Embedded;
use kstore_storage::storage::{Commit, CommitError, Layer, Outcome, Storage, Write};
use kstore_store::{Config, Store};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tower::ServiceExt as _;

/// A storage whose first removals of a custom object panic, and whose next ones fail.
struct FailingStorage {
    inner: Embedded,
    removals: AtomicU32,
}

const PANICS: u32 = 3;
const FAILURES: u32 = 2;

#[async_trait]
impl Layer for FailingStorage {
    fn inner(&self) -> &dyn Storage {
        &self.inner
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome, CommitError> {
        let is_removal = |write: &Write| matches!(write, Write::Delete { key } if key.starts_with("/registry/example.com/"));
        if commit.writes.iter().any(is_removal) {
            let before = self.removals.fetch_add(1, Ordering::Relaxed);
            assert!(before >= PANICS, "the storage panics");
            if before < PANICS + FAILURES {
                return Err(CommitError::Unavailable("the storage fails".into()));
            }
        }
        self.inner.commit(commit).await
    }
}

struct Api {
    server: ApiServer,
}

impl Api {
    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let admin = UserInfo::new("root", ["system:masters"]);
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let answer = self.server.in_process(admin).oneshot(request.body(body).unwrap()).await.unwrap();
        let code = answer.status();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Repeats a call until the answer has this code; in virtual time.
    async fn until(&self, method: Method, path: &str, body: Option<Value>, code: StatusCode) {
        for _ in 0..1_000 {
            let (found, _) = self.call(method.clone(), path, body.clone()).await;
            if found == code {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{method} {path} never gives {code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_removed_although_the_deletion_of_its_objects_panics_and_fails() {
    let nondet = Nondet::simulated(1);
    let store = Store::open(Config::memory(), nondet.clone()).await.unwrap();
    let storage = Arc::new(FailingStorage { inner: Embedded::new(store), removals: AtomicU32::new(0) });
    let config = ServerConfig { nondet, ..ServerConfig::default() };
    let spawn = |task| drop(tokio::spawn(task));
    let api = Api { server: ApiServer::start(storage.clone(), config, spawn).await.unwrap() };
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let (code, answer) = api.call(Method::POST, definitions, Some(definition)).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    api.until(Method::POST, widgets, Some(widget), StatusCode::CREATED).await;
    let path = format!("{definitions}/widgets.example.com");
    let (code, answer) = api.call(Method::DELETE, &path, None).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    api.until(Method::GET, &path, None, StatusCode::NOT_FOUND).await;
    assert!(storage.removals.load(Ordering::Relaxed) > PANICS + FAILURES);
    let page = api.server.pipeline().metrics().render(Minor::DEFAULT, std::iter::empty());
    let restarts = format!("kstore_apiserver_task_restarts_total{{task=\"definitions\"}} {PANICS}\n");
    assert!(page.contains(&restarts), "{page}");
}
