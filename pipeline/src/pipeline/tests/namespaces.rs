//! Creates that race with changes to their namespace between the check of the namespace and the commit.

use crate::pipeline::Pipeline;
use crate::racing::Racing;
use bytes::Bytes;
use kstore_api::kind;
use kstore_api::patch::PatchType;
use kstore_api::resource::Resource;
use kstore_registry::registry::namespaces;
use kstore_registry::request::{Action, Body, Request, Target, WriteOptions};
use kstore_registry::user::UserInfo;
use kstore_storage::storage::Storage;
use serde_json::{Value, json};
use std::sync::Arc;

const NAME: &str = "tenant";

struct Api {
    storage: Arc<Racing>,
    pipeline: Pipeline,
}

fn namespace(labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "status": {"phase": "Active"},
        "metadata": {"name": NAME, "uid": "u", "labels": labels}})
}

/// The namespace after its DELETE, until its contents are gone.
fn being_deleted() -> Value {
    let mut deleted = namespace(json!({}));
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    deleted["status"]["phase"] = json!("Terminating");
    deleted
}

fn maps() -> &'static Resource {
    kind::lookup("", "v1", "configmaps").unwrap()
}

impl Api {
    async fn start() -> Self {
        let key = namespaces().storage_key("", NAME);
        let (storage, pipeline) = Racing::start(key, namespace(json!({}))).await;
        Self { storage, pipeline }
    }

    async fn run(&self, name: &str, action: Action) -> Result<(), (u16, String)> {
        let target = Target {
            resource: maps(),
            custom: None,
            subresource: "",
            namespace: NAME.into(),
            name: name.into(),
        };
        let request = Request {
            user: Arc::new(UserInfo::new("root", ["system:masters"])),
            agent: "test".into(),
            causes: Vec::new(),
            fence: None,
            stage: None,
            group: None,
            bound: None,
            timeout: None,
            target,
            action,
        };
        let served = self.pipeline.serve(request).await;
        served.map(drop).map_err(|refused| (refused.status.code, refused.status.message))
    }

    async fn is_stored(&self, name: &str) -> bool {
        self.storage.inner.get(&maps().storage_key(NAME, name), 0).await.unwrap().is_some()
    }
}

fn body(name: &str) -> Bytes {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string().into()
}

/// All ways to create an object, with the name in the URL.
fn creations() -> [(&'static str, Action); 2] {
    [("", Action::Create(Body::json(body("new")), WriteOptions::default())), ("new", apply_action())]
}

fn apply_action() -> Action {
    let options = WriteOptions { field_manager: "test".into(), ..WriteOptions::default() };
    Action::Patch(PatchType::Apply, body("new"), options)
}

#[tokio::test(start_paused = true)]
async fn no_object_is_created_in_a_namespace_deleted_between_check_and_commit() {
    let refused = |code, text: &str| Err((code, text.to_owned()));
    let terminating = "configmaps \"new\" is forbidden: unable to create new content in namespace tenant because it is being terminated";
    let absent = "namespaces \"tenant\" not found";
    for (end, want) in [(Some(being_deleted()), refused(403, terminating)), (None, refused(404, absent))] {
        for (name, action) in creations() {
            let api = Api::start().await;
            api.storage.before_commits([Some(namespace(json!({"a": "1"}))), end.clone()]);
            assert_eq!(api.run(name, action).await, want, "{name:?} {end:?}");
            assert!(!api.is_stored("new").await);
            assert_eq!(api.storage.commits(), 2, "both lost");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn other_changes_of_the_namespace_only_cost_a_retry() {
    for (name, action) in creations() {
        let api = Api::start().await;
        api.storage.before_commits((0..3).map(|n| Some(namespace(json!({"n": n.to_string()})))));
        assert_eq!(api.run(name, action).await, Ok(()));
        assert!(api.is_stored("new").await);
        assert_eq!(api.storage.commits(), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_recreated_namespace_accepts_objects_and_updates_are_not_guarded_by_it() {
    let api = Api::start().await;
    api.storage.write(Some(being_deleted())).await;
    api.storage.write(None).await;
    api.storage.write(Some(namespace(json!({})))).await;
    let [(name, create), ..] = creations();
    assert_eq!(api.run(name, create).await, Ok(()));
    let changed =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": {"n": "2"}});
    api.storage.before_commits([Some(being_deleted())]);
    let update = Action::Update(Body::json(changed.to_string().into()), WriteOptions::default());
    assert_eq!(api.run("new", update).await, Ok(()));
    assert_eq!(api.storage.commits(), 1);
}
