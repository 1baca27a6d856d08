//! Tests of the counted kinds, of the keys for changes, and of the status after a count.

use super::counted::{QuotaObject, decode};
use super::kinds::Kinds;
use super::plan::plan;
use super::{changed, kinds_key};
use crate::action::{Action, Plan};
use crate::definition::CustomKind;
use crate::limits::QUOTA_SETTLE;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceQuota;
use kstore_api::quota::amounts;
use kstore_api::version::Minor;
use kstore_informer::{Delta, Object as _};
use serde_json::{Value, json};
use std::sync::Arc;

fn quota(hard: &Value, status: &Value) -> QuotaObject {
    let metadata = json!({"name": "q", "namespace": "a", "uid": "u", "resourceVersion": "7"});
    let object = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata,
        "spec": {"hard": hard}, "status": status});
    QuotaObject::decode(object.to_string().as_bytes()).unwrap()
}

/// The written status, if any.
fn written(plan: &Plan) -> Option<Value> {
    let [Action::UpdateStatus(object)] = &plan.actions[..] else { return None };
    let quota: ResourceQuota = object.typed().unwrap();
    assert_eq!(quota.metadata.resource_version.as_deref(), Some("7"), "a charge in between must win");
    Some(json!(quota.status))
}

#[test]
fn new_quota_bounds_are_counted_twice() {
    let hard = json!({"pods": "3", "count/lamps.example.com": "1"});
    let first = plan(&quota(&hard, &json!({})), &amounts(&json!({"pods": "2"})));
    assert_eq!(
        written(&first),
        Some(json!({"hard": hard, "used": {"pods": "2"}})),
        "nothing is said of lamps"
    );
    assert_eq!(first.wake, Some(QUOTA_SETTLE));
    let status = json!({"hard": {"pods": "1", "cpu": "1"}, "used": {"pods": "1", "cpu": "500m"}});
    let changed = plan(&quota(&hard, &status), &amounts(&json!({"pods": "1"})));
    assert_eq!(written(&changed), Some(json!({"hard": hard, "used": {"pods": "1"}})));
}

#[test]
fn a_changed_count_updates_the_status() {
    let status = |used: &str| json!({"hard": {"cpu": "1"}, "used": {"cpu": used}});
    let hard = json!({"cpu": "1000m"});
    for (used, counted, want) in [("1", "1000m", None), ("700m", "0.2", Some("200m")), ("0", "2", Some("2"))]
    {
        let plan = plan(&quota(&hard, &status(used)), &amounts(&json!({"cpu": counted})));
        assert_eq!(written(&plan).map(|status| status["used"]["cpu"].clone()), want.map(|text| json!(text)));
        assert_eq!(plan.wake, None);
    }
    // A resource that could not be counted keeps its amount.
    let kept = plan(&quota(&hard, &status("700m")), &amounts(&json!({})));
    assert_eq!(kept, Plan::nothing());
}

#[test]
fn charges_cause_no_recount() {
    let of = |hard: &str, bound: &str, used: &str| {
        Arc::new(quota(&json!({"pods": hard}), &json!({"hard": {"pods": bound}, "used": {"pods": used}})))
    };
    let update = |old, new| changed(&Delta::Updated { old, new });
    let key = of("1", "1", "0").key();
    assert!(update(of("3", "3", "1"), of("3", "3", "2")).is_empty());
    assert_eq!(update(of("3", "3", "1"), of("5", "3", "1")), [key.clone(), kinds_key()]);
    assert_eq!(
        update(of("5", "3", "1"), of("5", "3", "2")).first(),
        Some(&key),
        "its bounds wait for a count"
    );
    assert_eq!(changed(&Delta::Added(of("1", "1", "0"))), [key, kinds_key()]);
}

#[test]
fn counted_kinds_follow_from_the_bounds() {
    let custom = |plural: &'static str, namespaced: bool| {
        let resource = crate::resource::Resource::named("example.com", "v1", plural);
        Arc::new(CustomKind { kind: "Lamp".into(), resource, namespaced })
    };
    let kinds =
        Kinds::with(Minor::DEFAULT, true, [custom("lamps", true), custom("worlds", false)].into_iter());
    let counted = |name: &str| {
        let (kinds, amounts) = kinds.counted_by(quota(&json!({ name: "1" }), &json!({})).quota());
        assert_eq!(kinds.len(), amounts.len(), "{name}");
        kinds.iter().next().map(|kind| format!("{} {}", kind.kind, kind.resource.plural))
    };
    for (name, want) in [
        ("requests.cpu", Some("Pod pods")),
        ("services.loadbalancers", Some("Service services")),
        (
            "gold.storageclass.storage.k8s.io/requests.storage",
            Some("PersistentVolumeClaim persistentvolumeclaims"),
        ),
        ("secrets", Some("Secret secrets")),
        ("count/deployments.apps", Some("Deployment deployments")),
        (
            "count/horizontalpodautoscalers.autoscaling",
            Some("HorizontalPodAutoscaler horizontalpodautoscalers"),
        ),
        ("count/events.events.k8s.io", Some("Event events")),
        ("count/lamps.example.com", Some("Lamp lamps")),
        ("count/worlds.example.com", None),
        ("count/nodes", None),
        ("count/tokenreviews.authentication.k8s.io", None),
        ("count/nothing.example.com", None),
    ] {
        assert_eq!(counted(name).as_deref(), want, "{name}");
    }
}

#[test]
fn an_object_is_counted_by_its_kind() {
    let hard = json!({"count/configmaps": "1", "requests.cpu": "1", "count/pods": "1"});
    let (kinds, _) =
        Kinds::with(Minor::DEFAULT, true, std::iter::empty()).counted_by(quota(&hard, &json!({})).quota());
    let of = |object: Value| {
        let counted = decode(object.to_string().as_bytes()).unwrap();
        let usages = kinds.iter().filter_map(|kind| kind.usage(&counted));
        usages.map(|usage| usage.at(Timestamp::UNIX_EPOCH).count()).collect::<Vec<_>>()
    };
    let metadata = json!({"name": "x", "namespace": "a", "uid": "u", "resourceVersion": "3"});
    let requests = json!({"requests": {"cpu": "1"}});
    let spec = json!({"containers": [{"name": "c", "resources": requests}]});
    assert_eq!(of(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})), [4]);
    assert_eq!(of(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})), [2]);
    assert!(of(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})).is_empty());
}
