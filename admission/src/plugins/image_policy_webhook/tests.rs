//! Image reviews that are answered, refused and failing, by a real HTTPS server.

use super::*;
use crate::plugins::tests::{TestRequest, chain_of};
use crate::subject::Subject;
use kstore_api::kind;
use kstore_registry::outbound::test_server::{Reply, TestServer};
use kstore_registry::testing::MapLookup;
use kstore_registry::user::UserInfo;
use serde_json::json;

fn options(more: Value) -> ImagePolicyOptions {
    let mut policy = json!({ "kubeConfigFile": "k", "retryBackoff": 1 });
    policy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ImagePolicyOptions::parse(json!({ "imagePolicy": policy })).unwrap()
}

fn pod(images: &[&str]) -> Value {
    let containers: Vec<Value> = images.iter().map(|image| json!({ "name": "c", "image": image })).collect();
    let annotations = json!({ "my.image-policy.k8s.io/ticket": "7", "other": "x" });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "p", "annotations": annotations },
        "spec": {
            "containers": containers,
            "initContainers": [{ "name": "i", "image": "first" }],
            "ephemeralContainers": [{ "name": "e", "image": "debug" }],
        },
    })
}

/// A server that allows all images but `evil`.
async fn server() -> TestServer {
    TestServer::start(|received| {
        let containers = received.json()["spec"]["containers"].clone();
        let is_evil = containers.as_array().unwrap().iter().any(|one| one["image"] == "evil");
        let reason = if is_evil { "evil images are evil" } else { "" };
        let status = json!({ "allowed": !is_evil, "reason": reason, "auditAnnotations": { "scan": "done" } });
        Reply::json(
            &json!({ "apiVersion": "imagepolicy.k8s.io/v1alpha1", "kind": "ImageReview", "status": status }),
        )
    })
    .await
}

fn plugin(server: &TestServer, more: Value) -> Arc<dyn Plugin> {
    let remote = Remote::new(&server.config()).unwrap();
    Arc::new(ImagePolicyWebhook::new(remote, options(more), Rng::seeded(1)))
}

type Verdict = (Result<(), String>, Vec<(String, String)>);

/// The plugin's verdict on one request, with its audit annotations.
async fn ask(plugin: &Arc<dyn Plugin>, (operation, subresource): (Operation, &str), pod: &Value) -> Verdict {
    let user = UserInfo::new("ann", [""; 0]);
    let resource = kind::lookup("", "v1", "pods").unwrap();
    let subject =
        Subject { user: &user, operation, resource, subresource, namespace: "a", name: "p", seed: 0 };
    let admission = chain_of(&ROW, plugin.clone(), MapLookup::of([]));
    let mut request = TestRequest::new(&admission, subject);
    request.calls = admission.calls(&user).audited();
    loop {
        let verdict = match request.validate(Some(pod), None) {
            Err(Undecided::Pending(answer)) => {
                answer.await;
                continue;
            }
            Err(Undecided::Refused(status)) => Err(status.message),
            Ok(()) => Ok(()),
        };
        return (verdict, request.calls.annotations());
    }
}

const CREATE: (Operation, &str) = (Operation::Create, "");

#[tokio::test]
async fn images_are_reviewed_and_answers_are_cached() {
    let server = server().await;
    let plugin = plugin(&server, json!({}));
    let notes = vec![(format!("{AUDIT}scan"), "done".to_owned())];
    let text = "pods \"p\" is forbidden: image policy webhook backend denied one or more images: evil images are evil";
    for _ in 0..2 {
        assert_eq!(ask(&plugin, CREATE, &pod(&["good"])).await, (Ok(()), notes.clone()));
        assert_eq!(ask(&plugin, CREATE, &pod(&["evil"])).await, (Err(text.to_owned()), notes.clone()));
    }
    assert_eq!(server.count(), 2);
    let sent = server.requests.lock()[0].json();
    assert_eq!(
        (&sent["apiVersion"], &sent["kind"]),
        (&json!("imagepolicy.k8s.io/v1alpha1"), &json!("ImageReview"))
    );
    assert_eq!(
        sent["spec"],
        json!({
            "containers": [{ "image": "good" }, { "image": "first" }],
            "annotations": { "my.image-policy.k8s.io/ticket": "7" },
            "namespace": "a",
        })
    );
    assert_eq!(ask(&plugin, (Operation::Update, "ephemeralcontainers"), &pod(&["evil"])).await.0, Ok(()));
    assert_eq!(server.requests.lock()[2].json()["spec"]["containers"], json!([{ "image": "debug" }]));
    for (operation, subresource) in [(Operation::Update, "status"), (Operation::Create, "binding")] {
        assert_eq!(ask(&plugin, (operation, subresource), &pod(&["evil"])).await.0, Ok(()), "{subresource}");
    }
    assert_eq!(server.count(), 3);
}

#[tokio::test]
async fn without_a_cache_time_each_request_is_reviewed_once() {
    let server = server().await;
    let plugin = plugin(&server, json!({ "allowTTL": -1 }));
    for reviews in 1..3 {
        assert_eq!(ask(&plugin, CREATE, &pod(&["good"])).await.0, Ok(()));
        assert_eq!(server.count(), reviews);
    }
}

#[tokio::test]
async fn a_failing_server_refuses_or_admits_pods_by_the_default() {
    type Answer = (fn() -> Reply, usize, &'static str);
    let answers: [Answer; 4] = [
        (|| Reply::Answer(500, String::new()), 5, "Error contacting webhook: 500"),
        (|| Reply::Answer(404, String::new()), 1, "Error contacting webhook: 404"),
        (|| Reply::Answer(200, "no".into()), 1, "the webhook's answer is not an ImageReview"),
        (|| Reply::json(&json!({})), 1, "one or more images rejected by webhook backend"),
    ];
    for (answer, calls, text) in answers {
        let server = TestServer::start(move |_| answer()).await;
        let (verdict, _) = ask(&plugin(&server, json!({})), CREATE, &pod(&["x"])).await;
        assert!(verdict.clone().unwrap_err().contains(text), "{verdict:?}");
        assert_eq!(server.count(), calls, "{text}");
        let (verdict, notes) =
            ask(&plugin(&server, json!({ "defaultAllow": true })), CREATE, &pod(&["x"])).await;
        let is_failure = !text.starts_with("one or more");
        let open = vec![(format!("{AUDIT}failed-open"), "true".to_owned())];
        assert_eq!((verdict.is_ok(), notes), (is_failure, if is_failure { open } else { vec![] }), "{text}");
    }
}

#[test]
fn times_are_defaulted_disabled_or_bounded() {
    let parsed = options(json!({ "allowTTL": 0, "denyTTL": -1, "retryBackoff": 250, "defaultAllow": true }));
    let expected = ImagePolicyOptions {
        kubeconfig: "k".into(),
        allow_ttl: Duration::from_secs(300),
        deny_ttl: Duration::ZERO,
        retry_backoff: Duration::from_millis(250),
        default_allow: true,
    };
    assert_eq!(parsed, expected);
    for (document, text) in [
        (json!({}), "imagePolicy: required"),
        (json!({ "imagePolicy": {} }), "imagePolicy.kubeConfigFile: required"),
        (
            json!({ "imagePolicy": { "kubeConfigFile": "k", "allowTTL": 1 } }),
            "imagePolicy.allowTTL: expected more than 1",
        ),
        (json!({ "imagePolicy": { "kubeConfigFile": "k", "denyTTL": 1801 } }), "at most 1800 seconds"),
        (json!({ "imagePolicy": { "kubeConfigFile": "k", "retryBackoff": -2 } }), "found -2"),
        (json!({ "imagePolicy": { "kubeConfigFile": "k", "allowTtl": 5 } }), "unknown field `allowTtl`"),
    ] {
        let refused = ImagePolicyOptions::parse(document).unwrap_err();
        assert!(refused.contains(text), "{refused}");
    }
}
