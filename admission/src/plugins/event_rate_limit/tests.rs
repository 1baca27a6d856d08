//! Buckets on a stopped clock, and the key of each limit type.

use super::buckets::{Buckets, Rate};
use super::*;
use crate::plugins::tests::{TestRequest, chain_of, refused};
use kstore_api::kind;
use kstore_registry::testing::MapLookup;
use kstore_registry::user::UserInfo;
use serde_json::json;
use std::time::Duration;

fn configured(limits: &Value) -> Arc<dyn Plugin> {
    let document = json!({ "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration", "limits": limits });
    Arc::new(EventRateLimit::of(document).unwrap())
}

fn event(source: &str, object: &str) -> Value {
    let involved = json!({ "kind": "Pod", "namespace": "a", "name": object, "uid": "u", "apiVersion": "v1" });
    json!({ "source": { "component": source, "host": "h" }, "involvedObject": involved })
}

/// The plugin's verdict on new requests, one after the other.
fn ask(plugin: &Arc<dyn Plugin>, (user, namespace): (&str, &str), event: &Value) -> Result<(), String> {
    let user = UserInfo::new(user, [""; 0]);
    let subject = Subject {
        user: &user,
        operation: Operation::Create,
        resource: kind::lookup("", "v1", "events").unwrap(),
        subresource: "",
        namespace,
        name: "e",
        seed: 0,
    };
    let admission = chain_of(&ROW, plugin.clone(), MapLookup::of([]));
    let verdict = TestRequest::new(&admission, subject).validate(Some(event), None);
    verdict.map_err(refused).map_err(|status| {
        assert_eq!((status.code, status.retry_after_seconds()), (429, None));
        status.message
    })
}

#[tokio::test(start_paused = true)]
async fn each_limit_type_has_its_own_key() {
    let (ann, other) = (event("kubelet", "p"), event("kubelet", "q"));
    for (kind, first, same, different, key) in [
        ("Server", (("ann", "a"), &ann), (("bob", "b"), &other), None, ""),
        ("Namespace", (("ann", "a"), &ann), (("bob", "a"), &other), Some((("ann", "b"), &ann)), "a"),
        ("User", (("ann", "a"), &ann), (("ann", "b"), &other), Some((("bob", "a"), &ann)), "ann"),
        (
            "SourceAndObject",
            (("ann", "a"), &ann),
            (("bob", "b"), &ann),
            Some((("ann", "a"), &other)),
            "kubelethPodapuv1",
        ),
    ] {
        let plugin = configured(&json!([{ "type": kind, "qps": 1, "burst": 1 }]));
        assert_eq!(ask(&plugin, first.0, first.1), Ok(()), "{kind}");
        let refused = format!("Too many requests: limit reached on type {kind} for key {key}");
        assert_eq!(ask(&plugin, same.0, same.1), Err(refused));
        if let Some((who, event)) = different {
            assert_eq!(ask(&plugin, who, event), Ok(()), "{kind}");
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(ask(&plugin, same.0, same.1), Ok(()), "{kind}: refilled");
    }
}

#[tokio::test(start_paused = true)]
async fn every_limit_is_charged_and_the_last_refusal_is_the_answer() {
    let limits =
        json!([{ "type": "Server", "qps": 1, "burst": 1 }, { "type": "User", "qps": 1, "burst": 1 }]);
    let plugin = configured(&limits);
    assert_eq!(ask(&plugin, ("ann", "a"), &event("s", "p")), Ok(()));
    let by_server = Err("Too many requests: limit reached on type Server for key ".to_owned());
    assert_eq!(ask(&plugin, ("bob", "a"), &event("s", "p")), by_server);
    let by_user = Err("Too many requests: limit reached on type User for key bob".to_owned());
    assert_eq!(ask(&plugin, ("bob", "a"), &event("s", "p")), by_user, "the refused request was charged");
}

#[tokio::test(start_paused = true)]
async fn repeated_decisions_about_one_request_are_charged_once() {
    let plugin = configured(&json!([{ "type": "Server", "qps": 1, "burst": 1 }]));
    let user = UserInfo::new("ann", [""; 0]);
    let resource = kind::lookup("", "v1", "events").unwrap();
    let operation = Operation::Update;
    let subject =
        Subject { user: &user, operation, resource, subresource: "", namespace: "a", name: "e", seed: 0 };
    let admission = chain_of(&ROW, plugin.clone(), MapLookup::of([]));
    let request = TestRequest::new(&admission, subject);
    for _ in 0..3 {
        assert!(request.validate(Some(&event("s", "p")), None).is_ok());
    }
    assert!(ask(&plugin, ("ann", "a"), &event("s", "p")).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_bucket_holds_a_burst_and_refills_at_its_rate() {
    let mut buckets = Buckets::new(Rate { per_second: 2.0, burst: 3.0 }, 10);
    let mut taken = |count: usize| (0..count).filter(|_| buckets.try_take("k")).count();
    assert_eq!(taken(5), 3);
    tokio::time::advance(Duration::from_millis(400)).await;
    assert_eq!(taken(5), 0);
    tokio::time::advance(Duration::from_millis(100)).await;
    assert_eq!(taken(5), 1);
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert_eq!(taken(5), 3, "a bucket never holds more than its burst");
}

#[tokio::test(start_paused = true)]
async fn the_least_recently_used_bucket_is_dropped() {
    let mut buckets = Buckets::new(Rate { per_second: 1.0, burst: 1.0 }, 2);
    assert!(buckets.try_take("a") && buckets.try_take("b"));
    assert!(!buckets.try_take("a"), "a is now used more recently than b");
    assert!(buckets.try_take("c"));
    assert!(!buckets.try_take("a"), "kept");
    assert!(buckets.try_take("b"), "b was dropped, so its bucket is full");
    for key in 0..1000 {
        buckets.try_take(&key.to_string());
        assert!(buckets.len() <= 2);
    }
}
