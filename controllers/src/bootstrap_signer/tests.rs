//! Tests of the signatures of `cluster-info`.

use super::plan::plan;
use super::signature::detached;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{from_value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// The vector of Kubernetes' own tests.
#[test]
fn a_detached_signature_is_that_of_kubernetes() {
    let content = "Hello from the other side. I must have called a thousand times.";
    let expected = "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8";
    assert_eq!(detached(content, "joshua", "my voice is my passcode"), expected);
}

/// Entries of a ConfigMap or Secret as text.
type Entries<'e> = &'e [(&'e str, &'e str)];

fn info(data: Entries<'_>) -> ConfigMap {
    let data: BTreeMap<&str, &str> = data.iter().copied().collect();
    from_value(json!({"metadata": {"name": "cluster-info", "namespace": "kube-public"}, "data": data}))
        .unwrap()
}

fn token(name: &str, data: Entries<'_>) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    let entry = |(key, value): &(&str, &str)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec()));
    secret.data = Some(data.iter().map(entry).collect());
    secret
}

const SIGNS: (&str, &str) = ("usage-bootstrap-signing", "true");
const SECRET: (&str, &str) = ("token-secret", "0123456789abcdef");
const ID: (&str, &str) = ("token-id", "abcdef");

fn signing() -> Secret {
    token("bootstrap-token-abcdef", &[ID, SECRET, SIGNS])
}

#[test]
fn tokens_that_may_sign_sign_the_kubeconfig() {
    let end = |text: &'static str| ("expiration", text);
    let good = "bootstrap-token-abcdef";
    let table: [(&str, Entries<'_>, bool, Option<u64>); 11] = [
        (good, &[ID, SECRET, SIGNS], true, None),
        (good, &[ID, SECRET, SIGNS, end("2026-01-01T00:01:00Z")], true, Some(60)),
        (good, &[ID, SECRET, SIGNS, end("2026-01-01T00:00:00Z")], false, None),
        (good, &[ID, SECRET, SIGNS, end("soon")], false, None),
        (good, &[ID, SECRET, ("usage-bootstrap-signing", "yes")], false, None),
        (good, &[ID, SECRET], false, None),
        (good, &[ID, SIGNS], false, None),
        (good, &[SECRET, SIGNS], false, None),
        (good, &[ID, ("token-secret", ""), SIGNS], false, None),
        ("bootstrap-token-fedcba", &[ID, SECRET, SIGNS], false, None),
        ("abcdef", &[ID, SECRET, SIGNS], false, None),
    ];
    let info = info(&[("kubeconfig", "kind: Config"), ("other", "x")]);
    for (name, data, signs, wait) in table {
        let plan = plan(&info, [&token(name, data)], NOW);
        assert_eq!(plan.wake, wait.map(Duration::from_secs), "{name} {data:?}");
        let updated: Option<ConfigMap> = plan.actions.first().and_then(super::super::action::Action::updated);
        let written = updated.map(|map| map.data.unwrap());
        let signature = detached("kind: Config", "abcdef", SECRET.1);
        let expected =
            [("kubeconfig", "kind: Config"), ("other", "x"), ("jws-kubeconfig-abcdef", &signature)];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(written, signs.then_some(expected), "{name} {data:?}");
    }
}

#[test]
fn signatures_follow_the_kubeconfig_and_the_tokens() {
    let key = "jws-kubeconfig-abcdef";
    let signature = detached("new", "abcdef", SECRET.1);
    let current = info(&[("kubeconfig", "new"), (key, &signature)]);
    assert_eq!(plan(&current, [&signing()], NOW).actions, [], "nothing has changed");
    let updated = |info: &ConfigMap, tokens: &[Secret]| {
        let actions = plan(info, tokens, NOW).actions;
        actions.first().and_then(super::super::action::Action::updated::<ConfigMap>).unwrap().data.unwrap()
    };
    let stale = info(&[("kubeconfig", "new"), (key, &detached("old", "abcdef", SECRET.1))]);
    assert_eq!(updated(&stale, &[signing()])[key], signature);
    assert!(!updated(&current, &[]).contains_key(key), "the token is gone");
    let empty = info(&[(key, "old")]);
    assert_eq!(plan(&empty, [&signing()], NOW).actions, [], "there is no kubeconfig to sign");
}
