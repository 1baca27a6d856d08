//! Quota charges that race with another process between the read of the quota and the commit.

use super::provisioned::configured;
use crate::pipeline::{AdmissionConfig, Pipeline};
use crate::racing::Racing;
use kstore_admission::PluginSwitches;
use kstore_api::kind;
use kstore_registry::request::{Action, Body, Request, Target, WriteOptions};
use kstore_registry::user::UserInfo;
use serde_json::{Value, json};
use std::sync::Arc;

const KEY: &str = "/registry/resourcequotas/default/q";

fn quota(hard: &str, used: &str) -> Value {
    let status = json!({"hard": {"count/configmaps": hard}, "used": {"count/configmaps": used}});
    let spec = json!({"hard": {"count/configmaps": hard}});
    let metadata = json!({"name": "q", "namespace": "default", "uid": "u"});
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec, "status": status})
}

fn request(name: &str) -> Request {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let target = Target {
        resource: kind::lookup("", "v1", "configmaps").unwrap(),
        custom: None,
        subresource: "",
        namespace: "default".into(),
        name: String::new(),
    };
    Request {
        user: Arc::new(UserInfo::new("root", ["system:masters"])),
        agent: "test".into(),
        causes: Vec::new(),
        fence: None,
        stage: None,
        group: None,
        bound: None,
        timeout: None,
        target,
        action: Action::Create(Body::json(object.to_string().into()), WriteOptions::default()),
    }
}

async fn create(pipeline: &Pipeline, name: &str) -> Result<(), String> {
    pipeline.serve(request(name)).await.map(drop).map_err(|refused| refused.status.message)
}

async fn used(pipeline: &Pipeline) -> Value {
    pipeline.cache().fresh().await.unwrap();
    pipeline.cache().get(kind::lookup("", "v1", "resourcequotas").unwrap(), KEY).unwrap().parse()["status"]["used"]["count/configmaps"]
        .clone()
}

#[tokio::test(start_paused = true)]
async fn a_charge_of_another_process_is_never_lost() {
    let (storage, pipeline) = Racing::start(KEY.to_owned(), quota("9", "0")).await;
    storage.before_commits((1..4).map(|used| Some(quota("9", &used.to_string()))));
    assert_eq!(create(&pipeline, "a").await, Ok(()));
    assert_eq!((used(&pipeline).await, storage.commits()), (json!("4"), 4));
}

#[tokio::test(start_paused = true)]
async fn writes_beyond_a_quota_that_another_process_used_up_are_refused() {
    let (storage, pipeline) = Racing::start(KEY.to_owned(), quota("1", "0")).await;
    storage.before_commits([Some(quota("1", "1"))]);
    let refused = create(&pipeline, "a").await.unwrap_err();
    assert_eq!(
        refused,
        "configmaps \"a\" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: \
         count/configmaps=1, limited: count/configmaps=1"
    );
    assert_eq!((used(&pipeline).await, storage.commits()), (json!("1"), 1));
    storage.before_commits([None]);
    assert!(create(&pipeline, "a").await.is_err());
    storage.write(None).await;
    assert_eq!(create(&pipeline, "a").await, Ok(()), "the quota is gone");
}

#[tokio::test(start_paused = true)]
async fn quotas_that_take_effect_before_the_commit_are_charged() {
    let mut pending = quota("1", "0");
    pending["status"] = json!({});
    let (storage, pipeline) = Racing::start(KEY.to_owned(), pending).await;
    storage.before_commits([Some(quota("1", "0"))]);
    assert_eq!(create(&pipeline, "a").await, Ok(()));
    assert_eq!((used(&pipeline).await, storage.commits()), (json!("1"), 2));
}

#[tokio::test(start_paused = true)]
async fn a_server_without_the_plugin_charges_nothing() {
    let switches = PluginSwitches::without(["ResourceQuota"]);
    let admission = AdmissionConfig { switches, ..AdmissionConfig::default() };
    let (_, pipeline) = Racing::start_with(KEY.to_owned(), quota("0", "0"), admission).await;
    assert_eq!(create(&pipeline, "a").await, Ok(()));
    assert_eq!(used(&pipeline).await, "0");
}

#[tokio::test(start_paused = true)]
async fn limited_objects_are_refused_in_a_namespace_without_a_quota() {
    let document = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration",
        "limitedResources": [{"resource": "configmaps", "matchContains": ["count/"]}],
    });
    let configured = configured("ResourceQuota", document, None);
    let admission = AdmissionConfig { configured, ..AdmissionConfig::default() };
    let (storage, pipeline) = Racing::start_with(KEY.to_owned(), quota("1", "0"), admission).await;
    assert_eq!(create(&pipeline, "a").await, Ok(()), "the quota bounds them");
    storage.write(None).await;
    assert_eq!(
        create(&pipeline, "b").await.unwrap_err(),
        "configmaps \"b\" is forbidden: insufficient quota to consume: count/configmaps"
    );
}

#[tokio::test(start_paused = true)]
async fn writers_of_one_process_take_turns() {
    let (storage, pipeline) = Racing::start(KEY.to_owned(), quota("40", "0")).await;
    storage.before_commits([]);
    let names: Vec<String> = (0..64).map(|at| format!("m{at}")).collect();
    let created = futures::future::join_all(names.iter().map(|name| create(&pipeline, name))).await;
    assert_eq!(created.iter().filter(|created| created.is_ok()).count(), 40);
    assert_eq!((used(&pipeline).await, storage.commits()), (json!("40"), 40), "no commit is lost");
}
