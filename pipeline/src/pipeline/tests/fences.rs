//! Fenced writes that race with renewals and take-overs between the check of the Lease and the commit.

use crate::pipeline::{Pipeline, Refused};
use crate::racing::Racing;
use http::HeaderMap;
use kstore_api::kind;
use kstore_api::resource::Resource;
use kstore_registry::fence::Fence;
use kstore_registry::request::{Action, Body, DeleteOptions, GetOptions, Request, Target, WriteOptions};
use kstore_registry::user::UserInfo;
use serde_json::{Value, json};
use std::sync::Arc;

const LEASE: &str = "/registry/leases/kube-system/office";

struct Api {
    storage: Arc<Racing>,
    pipeline: Pipeline,
}

/// The Lease with the given holder, term and renewal second.
fn lease(holder: &str, transitions: i32, renewed: u32) -> Value {
    let renewed = format!("2026-01-01T00:00:{renewed:02}.000000Z");
    lease_of(json!({ "holderIdentity": holder, "leaseTransitions": transitions, "renewTime": renewed }))
}

/// The Lease with the given spec.
fn lease_of(spec: Value) -> Value {
    let metadata = json!({ "name": "office", "namespace": "kube-system" });
    json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec })
}

impl Api {
    /// An API in which `a` holds the Lease in term 3.
    async fn start() -> Self {
        let (storage, pipeline) = Racing::start(LEASE.to_owned(), lease("a", 3, 0)).await;
        Self { storage, pipeline }
    }

    async fn run(&self, fence: &str, name: &str, action: Action) -> Result<(), (u16, String)> {
        let mut headers = HeaderMap::new();
        headers.insert("kstore-fence", fence.parse().unwrap());
        let target = Target {
            resource: maps(),
            custom: None,
            subresource: "",
            namespace: "default".into(),
            name: name.into(),
        };
        let user = Arc::new(UserInfo::new("root", ["system:masters"]));
        let fence = Fence::of(&headers).unwrap();
        let request = Request {
            user,
            agent: "test".into(),
            causes: Vec::new(),
            fence,
            stage: None,
            group: None,
            bound: None,
            timeout: None,
            target,
            action,
        };
        let refused = |refused: Refused| {
            let status = refused.status;
            (status.code, status.details.unwrap().causes[0].reason.clone())
        };
        self.pipeline.serve(request).await.map(drop).map_err(refused)
    }

    fn value(&self, name: &str) -> Option<Value> {
        let key = maps().storage_key("default", name);
        self.pipeline.cache().get(maps(), &key).map(|entry| entry.parse()["data"]["n"].clone())
    }
}

fn maps() -> &'static Resource {
    kind::lookup("", "v1", "configmaps").unwrap()
}

fn map(name: &str, n: u32) -> Body {
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name }, "data": { "n": n.to_string() } });
    Body::json(object.to_string().into())
}

fn create(name: &str, n: u32) -> Action {
    Action::Create(map(name, n), WriteOptions::default())
}

fn update(name: &str, n: u32) -> Action {
    Action::Update(map(name, n), WriteOptions::default())
}

fn delete() -> Action {
    Action::Delete(DeleteOptions::default(), WriteOptions::default())
}

fn broken() -> Result<(), (u16, String)> {
    Err((409, "LeaseNotHeld".into()))
}

#[tokio::test(start_paused = true)]
async fn renewals_between_check_and_commit_only_cost_a_retry() {
    let api = Api::start().await;
    for (action, commits) in [(create("x", 1), 4), (update("x", 2), 4), (delete(), 4)] {
        let name = if matches!(action, Action::Create(..)) { "" } else { "x" };
        api.storage.before_commits((1..4).map(|n| Some(lease("a", 3, n))));
        assert_eq!(api.run("kube-system/office/3/a", name, action).await, Ok(()));
        assert_eq!(api.storage.commits(), commits, "three lost to renewals");
    }
}

/// L2: a write with the fence of a deposed leader is refused, however soon it follows.
#[tokio::test(start_paused = true)]
async fn a_leader_deposed_between_check_and_commit_writes_nothing() {
    let api = Api::start().await;
    api.run("kube-system/office/3/a", "", create("x", 1)).await.unwrap();
    let ends = [
        Some(lease("b", 4, 1)),
        Some(lease("", 3, 1)),
        Some(lease("a", 4, 1)),
        Some(lease_of(json!({}))),
        None,
    ];
    for end in ends {
        for (name, action) in [("", create("y", 1)), ("x", update("x", 2)), ("x", delete())] {
            api.storage.write(Some(lease("a", 3, 0))).await;
            api.storage.before_commits([Some(lease("a", 3, 9)), end.clone()]);
            assert_eq!(api.run("kube-system/office/3/a", name, action).await, broken(), "{end:?}");
            assert_eq!(api.storage.commits(), 2);
        }
    }
    api.pipeline.cache().fresh().await.unwrap();
    assert_eq!((api.value("x"), api.value("y")), (Some(json!("1")), None));
}

/// L2, for a leader deposed long ago: requests that would write nothing are refused too; reads are not.
#[tokio::test(start_paused = true)]
async fn all_write_requests_are_refused_after_the_term() {
    let api = Api::start().await;
    api.run("kube-system/office/3/a", "", create("x", 1)).await.unwrap();
    api.storage.write(Some(lease("b", 4, 1))).await;
    let dry = Action::Create(map("z", 1), WriteOptions { dry_run: true, ..WriteOptions::default() });
    for (name, action) in [("x", update("x", 1)), ("", dry), ("none", delete()), ("", create("x", 1))] {
        assert_eq!(api.run("kube-system/office/3/a", name, action).await, broken());
    }
    api.run("kube-system/office/3/a", "x", Action::Get(GetOptions::default())).await.unwrap();
    api.run("kube-system/office/4/b", "x", update("x", 2)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_can_write_before_the_cache_shows_its_lease() {
    let api = Api::start().await;
    api.storage.write(Some(lease("b", 4, 1))).await;
    api.run("kube-system/office/4/b", "", create("x", 1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_concurrent_change_of_the_object_is_retried() {
    let api = Api::start().await;
    api.run("kube-system/office/3/a", "", create("x", 1)).await.unwrap();
    api.storage.before_commits([Some(lease("a", 3, 1))]);
    let race = api.run("kube-system/office/3/a", "x", update("x", 2));
    let other = api.run("kube-system/office/3/a", "x", update("x", 3));
    let (race, other) = tokio::join!(race, other);
    assert_eq!((race, other), (Ok(()), Ok(())));
}
