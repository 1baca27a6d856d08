//! Token webhooks that are valid, slow, failing, lying, or have a wrong certificate.

use super::*;
use kstore_registry::outbound::RemoteConfig;
use kstore_registry::outbound::test_server::{Reply, TestServer};
use kstore_registry::user::AUTHENTICATED;

const MINUTE: Duration = Duration::from_secs(60);

fn webhook(config: &RemoteConfig, ttl: Duration) -> TokenWebhook {
    TokenWebhook::new(Remote::new(config).unwrap(), ReviewVersion::V1, ttl, Rng::seeded(1))
}

async fn ann() -> TestServer {
    TestServer::start(|received| {
        let review = received.json();
        let is_ann = review["spec"]["token"] == "anns";
        let user = json!({"username": "ann", "uid": "7", "groups": ["devs"], "extra": {"k": ["v"]}});
        let status = json!({"authenticated": is_ann, "user": if is_ann { user } else { json!({}) }});
        Reply::json(&json!({"apiVersion": review["apiVersion"], "kind": "TokenReview", "status": status}))
    })
    .await
}

#[tokio::test]
async fn a_known_token_authenticates_its_user_and_answers_are_cached() {
    let server = ann().await;
    let webhook = webhook(&server.config(), MINUTE);
    for _ in 0..3 {
        let (user, good) = webhook.identity("anns", &["api"]).await.unwrap().unwrap();
        assert_eq!((user.username.as_str(), user.uid.as_str()), ("ann", "7"));
        assert_eq!(
            (&user.groups[..], &good[..]),
            (&["devs".to_owned(), AUTHENTICATED.to_owned()][..], &["api".to_owned()][..])
        );
        assert_eq!(user.extra["k"], ["v"]);
        assert_eq!(webhook.identity("bobs", &["api"]).await, Ok(None));
    }
    assert_eq!(server.count(), 2, "success and failure are cached");
    assert!(webhook.identity("anns", &["other"]).await.unwrap().is_some());
    assert_eq!(server.count(), 3, "other audiences have another cache entry");
    let sent = server.requests.lock()[0].json();
    assert_eq!(sent["apiVersion"], "authentication.k8s.io/v1");
    assert_eq!(sent["spec"], json!({"token": "anns", "audiences": ["api"]}));
    let mut page = String::new();
    webhook.render_metrics(&mut Page::new(&mut page));
    assert!(page.contains("authentication_token_cache_request_total{status=\"hit\"} 4\n"), "{page}");
    assert!(page.contains("authentication_token_cache_fetch_total{status=\"ok\"} 3\n"), "{page}");
}

#[tokio::test]
async fn without_a_cache_time_the_webhook_is_called_for_each_token() {
    let server = ann().await;
    let webhook = webhook(&server.config(), Duration::ZERO);
    for _ in 0..2 {
        webhook.identity("anns", &[]).await.unwrap();
    }
    assert_eq!(server.count(), 2);
}

#[tokio::test]
async fn concurrent_requests_with_one_token_share_a_call_if_answers_are_cached() {
    for (ttl, calls) in [(MINUTE, 2), (Duration::ZERO, 9)] {
        let server = ann().await;
        let webhook = webhook(&server.config(), ttl);
        let same = futures::future::join_all((0..8).map(|_| webhook.identity("anns", &["api"])));
        let (known, unknown) = tokio::join!(same, webhook.identity("bobs", &["api"]));
        assert!(known.iter().all(|known| known.as_ref().unwrap().is_some()));
        assert_eq!((unknown, server.count()), (Ok(None), calls), "{ttl:?}");
    }
}

#[tokio::test]
async fn failed_calls_are_retried_where_useful_and_failures_are_not_cached() {
    for (code, calls) in [(500, 5), (429, 5), (404, 1), (401, 1)] {
        let server = TestServer::start(move |_| Reply::Answer(code, String::new())).await;
        let webhook = webhook(&server.config(), MINUTE);
        let began = tokio::time::Instant::now();
        let refused = webhook.identity("t", &[]).await.unwrap_err();
        assert_eq!((refused, server.count()), (format!("the webhook answered {code}"), calls), "{code}");
        assert!(began.elapsed() >= Duration::from_secs(if calls == 5 { 4 } else { 0 }));
    }
}

#[tokio::test]
async fn a_server_with_a_wrong_certificate_receives_no_token() {
    let server = TestServer::named("elsewhere", |_| Reply::Hangup).await;
    let refused = webhook(&server.config(), MINUTE).identity("t", &[]).await.unwrap_err();
    assert!(refused.contains("certificate is not valid for 127.0.0.1"), "{refused}");
    assert_eq!(server.count(), 0);
}

#[test]
fn token_review_answers_are_parsed_strictly() {
    let read = |answer: serde_json::Value, audiences: &[&str]| {
        super::read(answer.to_string().as_bytes(), audiences)
            .map(|known| known.map(|(user, good)| (user.username.clone(), good.join(" "))))
    };
    let yes = |audiences: serde_json::Value| json!({"status": {"authenticated": true, "user": {"username": "a"}, "audiences": audiences}});
    let a = |good: &str| Ok(Some(("a".to_owned(), good.to_owned())));
    assert_eq!(read(yes(json!(null)), &["x", "y"]), a("x y"));
    assert_eq!(read(yes(json!(["y", "z"])), &["x", "y"]), a("y"));
    assert_eq!(read(yes(json!(["z"])), &["x"]), Ok(None), "unrequested audiences do not count");
    assert_eq!(
        read(json!({"status": {"authenticated": false, "error": "expired"}}), &[]),
        Err("expired".into())
    );
    assert_eq!(
        read(json!({"status": {"user": {"username": "a"}}}), &[]),
        Ok(None),
        "`authenticated` is required"
    );
    for nonsense in [
        json!(null),
        json!({}),
        json!([1]),
        json!({"status": 1}),
        json!({"status": {"authenticated": "true"}}),
    ] {
        assert!(read(nonsense.clone(), &[]).is_err(), "{nonsense}");
    }
}
