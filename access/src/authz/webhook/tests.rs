//! Verdicts of real webhooks, alone and in a chain of modes.

use super::*;
use crate::authz::abac::Abac;
use crate::authz::{Attributes, Authorizer, Mode, Modes, More, Selects, Target};
use kstore_api::selector::{field, label};
use kstore_registry::outbound::RemoteConfig;
use kstore_registry::outbound::test_server::{Reply, TestServer};
use kstore_registry::testing::MapLookup;
use kstore_registry::user::UserInfo;
use serde_json::{Value, json};
use std::sync::Arc;

/// The timeout is far above the time of a call on a busy machine.
fn options() -> AuthorizationWebhookOptions {
    let version = ReviewVersion::V1;
    AuthorizationWebhookOptions { version, timeout: Duration::from_secs(180), ..Default::default() }
}

fn webhook(config: &RemoteConfig, options: AuthorizationWebhookOptions, conditions: &[&str]) -> Mode {
    let conditions: Vec<String> = conditions.iter().map(|&text| text.to_owned()).collect();
    let remote = Remote::new(config).unwrap();
    Mode::Webhook(Arc::new(AuthorizationWebhook::new(remote, options, &conditions, Rng::seeded(1)).unwrap()))
}

fn chain(modes: impl IntoIterator<Item = Mode>) -> Authorizer {
    Authorizer::of_modes(MapLookup::of([]), Modes::new(modes))
}

async fn ask(authorizer: &Authorizer, user: &str) -> Result<(), (u16, String)> {
    let user = UserInfo::new(user, ["devs"]);
    let target = Target::Resource {
        group: "apps",
        resource: "deployments",
        subresource: "",
        namespace: "ns",
        name: "",
    };
    let fields = field::Selector::parse("metadata.name!=x").unwrap();
    let labels = label::Selector::parse("a=b,c notin (d),e").unwrap();
    let more = More { version: "v1", selects: Some(Selects { fields: &fields, labels: &labels }) };
    let attributes = Attributes { user: &user, verb: "list", target, more };
    authorizer.check(&attributes).await.map_err(|status| (status.code, status.message))
}

/// A webhook that allows ann, denies eve, and has no opinion on other users.
async fn judge() -> TestServer {
    TestServer::start(|received| {
        let status = match received.json()["spec"]["user"].as_str().unwrap() {
            "ann" => json!({"allowed": true}),
            "eve" => json!({"allowed": false, "denied": true, "reason": "not eve"}),
            "liar" => json!({"allowed": true, "denied": true}),
            _ => json!({"allowed": false, "reason": "unknown user"}),
        };
        Reply::json(&json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": status}))
    })
    .await
}

#[tokio::test]
async fn a_webhook_allows_denies_or_has_no_opinion() {
    let server = judge().await;
    let authorizer = chain([webhook(&server.config(), options(), &[]), Mode::AlwaysAllow]);
    for _ in 0..2 {
        assert_eq!(ask(&authorizer, "ann").await, Ok(()));
        let (code, message) = ask(&authorizer, "eve").await.unwrap_err();
        assert!(code == 403 && message.ends_with(": not eve"), "{message}");
        assert_eq!(ask(&authorizer, "bob").await, Ok(()), "the next mode allows");
    }
    assert_eq!(server.count(), 3, "verdicts are cached");
    let sent = server.requests.lock()[0].json();
    assert_eq!(
        sent["spec"],
        json!({
        "resourceAttributes": {"namespace": "ns", "verb": "list", "group": "apps", "version": "v1", "resource": "deployments",
            "fieldSelector": {"requirements": [{"key": "metadata.name", "operator": "NotIn", "values": ["x"]}]},
            "labelSelector": {"requirements": [
                {"key": "a", "operator": "In", "values": ["b"]},
                {"key": "c", "operator": "NotIn", "values": ["d"]},
                {"key": "e", "operator": "Exists"}]}},
        "user": "ann", "groups": ["devs", "system:authenticated"]})
    );
    let last = chain([webhook(&server.config(), options(), &[])]);
    assert!(ask(&last, "bob").await.unwrap_err().1.ends_with(": unknown user"));
}

#[tokio::test]
async fn concurrent_equal_requests_share_a_call_if_all_verdicts_are_cached() {
    for (unauthorized_ttl, calls) in [(Duration::from_secs(30), 2), (Duration::ZERO, 9)] {
        let server = judge().await;
        let options = AuthorizationWebhookOptions { unauthorized_ttl, ..options() };
        let authorizer = chain([webhook(&server.config(), options, &[])]);
        let same = futures::future::join_all((0..8).map(|_| ask(&authorizer, "eve")));
        let (denied, allowed) = tokio::join!(same, ask(&authorizer, "ann"));
        assert!(denied.iter().all(|denied| matches!(denied, Err((403, _)))), "{denied:?}");
        assert_eq!((allowed, server.count()), (Ok(()), calls), "{unauthorized_ttl:?}");
    }
}

#[tokio::test]
async fn a_failed_webhook_has_no_opinion_or_denies_by_its_failure_policy() {
    let silent = TestServer::start(|_| Reply::Silence).await;
    let lying = judge().await;
    let wrong = TestServer::named("elsewhere", |_| Reply::Hangup).await;
    let nonsense = TestServer::start(|_| Reply::Answer(200, "{".to_owned())).await;
    let short = AuthorizationWebhookOptions { timeout: Duration::from_millis(300), ..options() };
    for (server, user, options) in [
        (&silent, "ann", &short),
        (&lying, "liar", &options()),
        (&wrong, "ann", &options()),
        (&nonsense, "ann", &options()),
    ] {
        let open = chain([webhook(&server.config(), options.clone(), &[]), Mode::AlwaysAllow]);
        assert_eq!(ask(&open, user).await, Ok(()), "the next mode allows");
        let strict = AuthorizationWebhookOptions { failure_policy: FailurePolicy::Deny, ..options.clone() };
        let closed = chain([webhook(&server.config(), strict, &[]), Mode::AlwaysAllow]);
        assert_eq!(ask(&closed, user).await.unwrap_err().0, 500, "an error is no verdict");
        let alone = chain([webhook(&server.config(), options.clone(), &[]), Mode::AlwaysDeny]);
        assert_eq!(ask(&alone, user).await.unwrap_err().0, 500);
    }
    assert_eq!(wrong.count(), 0, "a server with a wrong certificate receives nothing");
}

#[tokio::test]
async fn match_conditions_decide_whether_a_webhook_is_called() {
    let server = judge().await;
    let conditions = ["has(request.resourceAttributes)", "request.user != 'eve'"];
    let authorizer = chain([webhook(&server.config(), options(), &conditions), Mode::AlwaysAllow]);
    assert_eq!(ask(&authorizer, "eve").await, Ok(()));
    assert_eq!(server.count(), 0);
    assert_eq!(ask(&authorizer, "ann").await, Ok(()));
    assert_eq!(server.count(), 1);
    let strict = AuthorizationWebhookOptions { failure_policy: FailurePolicy::Deny, ..options() };
    let failing =
        chain([webhook(&server.config(), strict.clone(), &["request.none == 1"]), Mode::AlwaysAllow]);
    assert_eq!(ask(&failing, "ann").await.unwrap_err().0, 500);
    let excluded =
        chain([webhook(&server.config(), strict, &["request.none == 1", "false"]), Mode::AlwaysAllow]);
    assert_eq!(
        ask(&excluded, "ann").await,
        Ok(()),
        "a false condition excludes the webhook although another fails"
    );
    let remote = Remote::new(&server.config()).unwrap();
    let bad =
        AuthorizationWebhook::new(remote, options(), &["true".to_owned(), "1".to_owned()], Rng::seeded(1));
    assert_eq!(bad.unwrap_err().0, 1);
}

#[tokio::test]
async fn modes_are_asked_in_order_and_masters_are_exempt() {
    let abac = Mode::Abac(Arc::new(Abac::parse("{\"user\":\"ann\"}").unwrap()));
    let authorizer = chain([abac, Mode::AlwaysDeny]);
    assert_eq!(ask(&authorizer, "ann").await, Ok(()));
    let (code, message) = ask(&authorizer, "bob").await.unwrap_err();
    assert_eq!(code, 403);
    assert!(message.ends_with(": No policy matched.\nEverything is forbidden."), "{message}");
    let server = judge().await;
    let authorizer = chain([webhook(&server.config(), options(), &[])]);
    let admin = UserInfo::new("eve", [kstore_registry::user::MASTERS]);
    for target in [Target::Path("/healthz"), Target::Path("/version")] {
        let attributes = Attributes { user: &admin, verb: "get", target, more: More::default() };
        assert!(authorizer.check(&attributes).await.is_ok());
    }
    assert_eq!(server.count(), 0);
}

#[test]
fn v1beta1_reviews_have_the_field_group_in_the_singular() {
    let user = UserInfo::new("ann", ["devs"]);
    let attributes =
        Attributes { user: &user, verb: "get", target: Target::Path("/x"), more: More::default() };
    let question = Question::of(&attributes);
    let review = question.review(ReviewVersion::V1Beta1);
    assert_eq!(review["apiVersion"], "authorization.k8s.io/v1beta1");
    let want = json!({"nonResourceAttributes": {"path": "/x", "verb": "get"}, "user": "ann", "group": ["devs", "system:authenticated"]});
    assert_eq!(review["spec"], want);
    let seen = question.condition_spec();
    assert_eq!((&seen["uid"], seen.get("resourceAttributes")), (&json!(""), None::<&Value>));
}
