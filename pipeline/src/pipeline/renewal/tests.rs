//! Compares renewals with the general path: each patch is tried (dry run) as it is and with an empty
//! `metadata` added, which makes it no renewal, on the same Lease at the same time.

use super::*;
use crate::pipeline::{AdmissionConfig, Answer, PipelineConfig, PipelineState};
use bytes::Bytes;
use kstore_admission::PluginSwitches;
use kstore_nondet::Nondet;
use kstore_registry::cache::Cache;
use kstore_registry::decode;
use kstore_registry::request::{Action, Body, FieldValidation, Request, own_request};
use kstore_registry::user::{MASTERS, UserInfo};
use kstore_storage::storage::embedded::Embedded;
use kstore_store::{Config, Store};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const NAMESPACE: &str = "default";
const BEGAN: &str = "2026-01-01T00:00:00.000000Z";
const RENEWED: &str = "2026-01-01T00:00:10.000000Z";

struct Api {
    pipeline: Arc<Pipeline>,
}

fn target(name: &str) -> Target {
    let resource = kind::lookup("coordination.k8s.io", "v1", "leases").unwrap();
    Target { resource, custom: None, subresource: "", namespace: NAMESPACE.into(), name: name.into() }
}

fn options(manager: &str, dry_run: bool) -> WriteOptions {
    WriteOptions { field_manager: manager.into(), dry_run, ..WriteOptions::default() }
}

fn merge(patch: &Value, options: WriteOptions) -> Action {
    Action::Patch(PatchType::Merge, Bytes::from(patch.to_string()), options)
}

impl Api {
    async fn start() -> Self {
        Self::start_with(AdmissionConfig::default()).await
    }

    async fn start_with(admission: AdmissionConfig) -> Self {
        let nondet = Nondet::simulated(1);
        let store = Store::open(Config::memory(), nondet.clone()).await.unwrap();
        let (cache, follow) = Cache::fill(Arc::new(Embedded::new(store)), |_| {}).await.unwrap();
        tokio::spawn(follow);
        let config = PipelineConfig { nondet, admission, ..PipelineConfig::default() };
        let pipeline = Arc::new(Pipeline::new(PipelineState::of_cache(cache), config));
        crate::bootstrap::run(&pipeline, &Default::default()).await.unwrap();
        Self { pipeline }
    }

    /// The object after a request, with its warnings; or the refusal.
    async fn run(&self, name: &str, action: Action) -> Result<(Value, Vec<String>), (u16, String)> {
        let request = Request {
            user: Arc::new(UserInfo::new("root", [MASTERS])),
            agent: "test".into(),
            causes: Vec::new(),
            fence: None,
            stage: None,
            group: None,
            bound: None,
            timeout: None,
            target: target(name),
            action,
        };
        match self.pipeline.serve(request).await {
            Ok(answered) => match answered.answer {
                Answer::Object(object) => Ok((object.entry.parse(), answered.warnings)),
                _ => panic!("a write answers with its object"),
            },
            Err(refused) => Err((refused.status.code, refused.status.message)),
        }
    }

    /// Creates a Lease as `kubelet`, with more metadata.
    async fn create(&self, name: &str, metadata: Value) {
        let mut lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
            "spec": {"holderIdentity": "n", "leaseDurationSeconds": 40, "renewTime": BEGAN}});
        lease["metadata"]["name"] = json!(name);
        let create = Action::Create(Body::json(lease.to_string().into()), options("kubelet", false));
        self.run("", create).await.unwrap();
        self.pass().await;
    }

    /// Advances the clock, so that entries of managed fields get other times.
    async fn pass(&self) {
        tokio::time::advance(Duration::from_secs(10)).await;
    }

    /// Whether the patch counts as a renewal. Checks that its result equals that of the general path.
    async fn is_renewal(&self, name: &str, patch: &Value, manager: &str) -> bool {
        let mut general = patch.clone();
        if general.get("metadata").is_none() {
            general["metadata"] = json!({});
        }
        let short = self.run(name, merge(patch, options(manager, true))).await;
        let long = self.run(name, merge(&general, options(manager, true))).await;
        assert_eq!(short, long, "{manager}: {patch}");
        let key = target(name).key();
        let current = self.pipeline.cache().get(target(name).resource, &key).unwrap().parse();
        let read = |patch: &Value| {
            let text = patch.to_string();
            decode::patch(PatchType::Merge, text.as_bytes(), FieldValidation::Warn).unwrap()
        };
        let renewed = |patch: &Value| {
            self.pipeline.renewed(
                &UserInfo::new("root", [MASTERS]),
                &target(name),
                &read(patch),
                &options(manager, true),
                &current,
            )
        };
        assert_eq!(renewed(&general), None);
        renewed(patch).is_some()
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_store_what_the_general_path_stores() {
    let api = Api::start().await;
    let renewal = json!({"spec": {"holderIdentity": "n", "leaseDurationSeconds": 40, "renewTime": RENEWED}});
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]);
    api.create("plain", json!({})).await;
    api.create("owned", json!({"ownerReferences": owner, "labels": {"a": "b"}, "finalizers": ["x.io/y"]}))
        .await;
    for name in ["plain", "owned"] {
        assert!(api.is_renewal(name, &renewal, "kubelet").await);
        assert!(api.is_renewal(name, &json!({"spec": {"renewTime": RENEWED}}), "kubelet").await);
        // Another manager's entry, before and behind in the order.
        let mark = json!({"metadata": {"annotations": {"k": "v"}}});
        api.run(name, merge(&mark, options("a", false))).await.unwrap();
        api.pass().await;
        assert!(api.is_renewal(name, &renewal, "kubelet").await);
        let (stored, _) = api.run(name, merge(&renewal, options("kubelet", false))).await.unwrap();
        assert_eq!(stored["spec"]["renewTime"], RENEWED);
        let managers: Vec<_> = stored["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["manager"].clone())
            .collect();
        assert_eq!(managers, ["a", "kubelet"], "entries are in the order of their times");
    }
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_is_more_than_a_renewal_takes_the_general_path() {
    let api = Api::start().await;
    api.create("n", json!({})).await;
    for patch in [
        json!({}),
        json!({"spec": {}}),
        json!({"spec": {"renewTime": BEGAN}}),
        json!({"spec": {"renewTime": null}}),
        json!({"spec": {"renewTime": "2026-01-01T00:00:10Z"}}),
        json!({"spec": {"renewTime": "2026-01-01T01:00:10.000000+01:00"}}),
        json!({"spec": {"renewTime": "0001-01-01T00:00:00.000000Z"}}),
        json!({"spec": {"renewTime": "soon"}}),
        json!({"spec": {"renewTime": 5}}),
        json!({"spec": {"holderIdentity": "m", "renewTime": RENEWED}}),
        json!({"spec": {"holderIdentity": null, "renewTime": RENEWED}}),
        json!({"spec": {"leaseDurationSeconds": -1, "renewTime": RENEWED}}),
        json!({"spec": {"leaseDurationSeconds": "40", "renewTime": RENEWED}}),
        json!({"spec": {"leaseTransitions": 1, "renewTime": RENEWED}}),
        json!({"spec": {"unknown": 1, "renewTime": RENEWED}}),
        json!({"spec": {"renewTime": RENEWED}, "status": {}}),
        json!({"spec": {"renewTime": RENEWED}, "metadata": {"labels": {"a": "b"}}}),
        json!({"spec": {"renewTime": RENEWED}, "metadata": {"resourceVersion": "1"}}),
    ] {
        assert!(!api.is_renewal("n", &patch, "kubelet").await, "{patch}");
    }
    let renewal = json!({"spec": {"renewTime": RENEWED}});
    assert!(!api.is_renewal("n", &renewal, "other").await, "the field gets another owner");
    let again = json!({"spec": {"renewTime": "2026-01-01T00:00:20.000000Z"}});
    api.run("n", merge(&renewal, options("other", false))).await.unwrap();
    assert!(!api.is_renewal("n", &again, "kubelet").await, "two managers own fields of the spec");
}

#[tokio::test]
async fn a_plugin_that_refuses_every_write_refuses_renewals() {
    let switches = PluginSwitches { enabled: ["AlwaysDeny"].into(), ..PluginSwitches::default() };
    let api = Api::start_with(AdmissionConfig { switches, ..AdmissionConfig::default() }).await;
    let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "n1" },
        "spec": { "holderIdentity": "n1", "renewTime": BEGAN } });
    let create = Action::Create(Body::json(lease.to_string().into()), options("test", false));
    let created = api.pipeline.serve(own_request(target(""), create)).await;
    assert!(created.is_ok(), "the server's own write");
    let renewal = json!({ "spec": { "renewTime": RENEWED } });
    let refused = api.run("n1", merge(&renewal, options("test", false))).await.unwrap_err();
    assert_eq!(refused.0, 403, "{refused:?}");
}
