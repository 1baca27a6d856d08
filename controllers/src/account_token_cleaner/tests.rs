//! Tests of the end of unused tokens.

use super::mounted::refers_to;
use super::plan::{is_tracked, is_unused, plan};
use crate::action::Action;
use crate::config::UnusedTokenPeriod;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use serde_json::{Value, from_value, json};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn period() -> UnusedTokenPeriod {
    UnusedTokenPeriod::new(SignedDuration::from_hours(24 * 10)).unwrap()
}

fn secret(labels: Value, created: &str) -> Secret {
    from_value(json!({"metadata": {"name": "t", "namespace": "ns", "uid": "s", "resourceVersion": "7",
        "creationTimestamp": created, "labels": labels,
        "annotations": {"kubernetes.io/service-account.uid": "u1"}}}))
    .unwrap()
}

fn account(uid: &str, secrets: Value) -> ServiceAccount {
    from_value(json!({"metadata": {"name": "builder", "namespace": "ns", "uid": uid}, "secrets": secrets}))
        .unwrap()
}

#[test]
fn generated_tokens_without_use_for_the_period_are_unused() {
    let now = at("2026-03-20T12:00:00Z");
    let (old, young) = ("2026-03-10T11:59:59Z", "2026-03-10T12:00:00Z");
    let used = |day: &str| json!({"kubernetes.io/legacy-token-last-used": day});
    let listed = || json!([{"name": "other"}, {"name": "t"}]);
    let table = [
        (json!({}), old, Some(account("u1", listed())), true),
        (json!({}), young, Some(account("u1", listed())), false),
        (used("2026-03-09"), old, Some(account("u1", listed())), true),
        (used("2026-03-10"), old, Some(account("u1", listed())), false),
        (used("never"), old, Some(account("u1", listed())), false),
        (json!({}), old, Some(account("u1", json!([{"name": "other"}]))), false),
        (json!({}), old, Some(account("u2", listed())), false),
        (json!({}), old, None, false),
    ];
    for (labels, created, account, expected) in table {
        let secret = secret(labels.clone(), created);
        let found = is_unused(&secret, account.as_ref(), period(), now);
        assert_eq!(found, expected, "{labels} {created} {account:?}");
    }
    let mut leaving = secret(json!({}), old);
    leaving.metadata.deletion_timestamp = leaving.metadata.creation_timestamp.clone();
    assert!(!is_unused(&leaving, Some(&account("u1", listed())), period(), now));
}

#[test]
fn a_token_is_judged_after_uses_were_recorded_for_the_period() {
    let since = "2026-03-01".parse().unwrap();
    for (now, expected) in [("2026-03-11T23:59:59Z", false), ("2026-03-12T00:00:00Z", true)] {
        assert_eq!(is_tracked(since, period(), at(now)), expected, "{now}");
    }
}

#[test]
fn an_unused_token_becomes_invalid_and_is_deleted_later() {
    let now = at("2026-03-20T12:00:00Z");
    let created = "2026-01-01T00:00:00Z";
    let since = |day: &str| secret(json!({"kubernetes.io/legacy-token-invalid-since": day}), created);
    for unmarked in [secret(json!({}), created), since(""), since("today")] {
        let Some(Action::Patch { patch, .. }) = plan(&unmarked, period(), now) else {
            panic!("{unmarked:?}")
        };
        let labels = json!({"kubernetes.io/legacy-token-invalid-since": "2026-03-20"});
        assert_eq!(patch, json!({"metadata": {"uid": "s", "labels": labels}}));
    }
    assert_eq!(plan(&since("2026-03-10"), period(), now), None);
    let Some(Action::Delete { target, .. }) = plan(&since("2026-03-09"), period(), now) else { panic!() };
    assert_eq!((target.name.as_str(), target.resource_version.as_deref()), ("t", Some("7")));
}

#[test]
fn a_period_is_positive() {
    assert_eq!(UnusedTokenPeriod::new(SignedDuration::ZERO), None);
    let year = UnusedTokenPeriod::new(SignedDuration::from_hours(8760));
    assert_eq!(year, Some(UnusedTokenPeriod::default()));
}

#[test]
fn pods_refer_to_secrets_in_volumes_variables_and_image_credentials() {
    let specs = [
        json!({"volumes": [{"name": "v", "secret": {"secretName": "t"}}]}),
        json!({"volumes": [{"projected": {"sources": [{"secret": {"name": "t"}}]}}]}),
        json!({"volumes": [{"csi": {"driver": "d", "nodePublishSecretRef": {"name": "t"}}}]}),
        json!({"volumes": [{"iscsi": {"secretRef": {"name": "t"}}}]}),
        json!({"volumes": [{"azureFile": {"secretName": "t"}}]}),
        json!({"containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "t", "key": "k"}}}]}]}),
        json!({"initContainers": [{"envFrom": [{"secretRef": {"name": "t"}}]}]}),
        json!({"imagePullSecrets": [{"name": "t"}]}),
    ];
    for spec in specs {
        assert!(refers_to(&spec, "t"), "{spec}");
        assert!(!refers_to(&spec, "u"), "{spec}");
    }
    let other =
        json!({"volumes": [{"name": "t", "configMap": {"name": "t"}}], "containers": [{"name": "t"}]});
    assert!(!refers_to(&other, "t"));
}
