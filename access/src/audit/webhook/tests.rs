//! Events posted to real servers: fast, slow, failing, silent, and with a wrong certificate.

use super::*;
use crate::audit::{Audit, Policy, Throttle};
use kstore_registry::outbound::RemoteConfig;
use kstore_registry::outbound::test_server::{Reply, TestServer};
use std::sync::atomic::{AtomicUsize, Ordering};

const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
const LINE: &[u8] = b"{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",\"auditID\":\"x\"}\n";

fn audit(config: &RemoteConfig, options: WebhookOptions) -> Arc<Audit> {
    let mut audit = Audit::by(Policy::parse(POLICY.as_bytes()).unwrap());
    let sender = audit.send_to(Remote::new(config).unwrap(), options, Rng::seeded(1));
    tokio::spawn(sender.run());
    Arc::new(audit)
}

fn options(mode: Mode) -> WebhookOptions {
    let initial_backoff = Duration::from_millis(1);
    let batching = Batching { max_wait: Duration::from_millis(50), ..Batching::default() };
    WebhookOptions { mode, batching, initial_backoff, ..WebhookOptions::default() }
}

fn event() -> super::super::Encoded {
    vec![Some(LINE.to_vec())]
}

fn counted(audit: &Audit, plugin: &str) -> String {
    let mut page = String::new();
    audit.render_metrics(&mut kstore_metrics_text::Page::new(&mut page));
    let start = format!("apiserver_audit_error_total{{plugin=\"{plugin}\"}} ");
    page.lines().find_map(|line| line.strip_prefix(&start)).unwrap().to_owned()
}

fn taken() -> Reply {
    Reply::Answer(200, "{}".to_owned())
}

#[tokio::test]
async fn events_of_one_batch_are_posted_as_one_list() {
    let server = TestServer::start(|_| taken()).await;
    let audit = audit(&server.config(), options(Mode::Batch));
    for _ in 0..3 {
        assert!(audit.record(event()).await);
    }
    audit.drain().await;
    let requests = server.requests.lock().clone();
    assert_eq!(requests.len(), 1);
    let list = requests[0].json();
    assert_eq!((list["kind"].as_str(), list["items"].as_array().unwrap().len()), (Some("EventList"), 3));
    assert!(requests[0].head.starts_with("POST /hook HTTP/1.1\r\n"), "{}", requests[0].head);
    assert_eq!(counted(&audit, "webhook"), "0");
}

#[tokio::test]
async fn event_lists_are_bounded_and_throttled() {
    let server = TestServer::start(|_| taken()).await;
    let throttle = Some(Throttle { interval: Duration::from_millis(50), burst: 1 });
    let batching = Batching { max_size: 2, throttle, ..Batching::default() };
    let began = Instant::now();
    let audit = audit(&server.config(), WebhookOptions { batching, ..options(Mode::Batch) });
    for _ in 0..6 {
        audit.record(event()).await;
    }
    audit.drain().await;
    assert_eq!(server.count(), 3);
    assert!(began.elapsed() >= Duration::from_millis(100), "the second and third wait");
}

#[tokio::test]
async fn posts_are_attempted_five_times_and_then_the_mode_decides() {
    for (mode, goes_on) in [(Mode::Blocking, true), (Mode::BlockingStrict, false)] {
        let server = TestServer::start(|_| Reply::Answer(503, String::new())).await;
        let audit = audit(&server.config(), options(mode));
        assert_eq!(audit.record(event()).await, goes_on);
        assert_eq!((server.count(), counted(&audit, "webhook").as_str()), (5, "1"));
    }
}

#[tokio::test]
async fn events_are_delivered_after_a_webhook_recovers() {
    let calls = Arc::new(AtomicUsize::new(0));
    let server = TestServer::start({
        let calls = calls.clone();
        move |_| match calls.fetch_add(1, Ordering::Relaxed) {
            0 => Reply::Hangup,
            1 => Reply::Answer(500, "no".to_owned()),
            _ => taken(),
        }
    })
    .await;
    let audit = audit(&server.config(), options(Mode::BlockingStrict));
    assert!(audit.record(event()).await);
    assert_eq!(counted(&audit, "webhook"), "0");
}

#[tokio::test]
async fn events_are_not_sent_to_a_server_with_a_wrong_certificate() {
    let server = TestServer::named("elsewhere", |_| taken()).await;
    let other = TestServer::start(|_| taken()).await;
    let foreign = RemoteConfig { authorities: other.authority.clone().into(), ..server.config() };
    for config in [server.config(), foreign] {
        let audit = audit(&config, options(Mode::BlockingStrict));
        assert!(!audit.record(event()).await);
        assert_eq!(server.count(), 0);
    }
    let named = RemoteConfig { server_name: Some("elsewhere".to_owned()), ..server.config() };
    assert!(audit(&named, options(Mode::BlockingStrict)).record(event()).await);
}

#[tokio::test]
async fn events_beyond_the_buffer_of_a_silent_server_are_dropped_and_counted() {
    let server = TestServer::start(|_| Reply::Silence).await;
    let batching = Batching { buffer: 4, max_size: 1, throttle: None, ..Batching::default() };
    let audit = audit(&server.config(), WebhookOptions { batching, ..options(Mode::Batch) });
    for _ in 0..200 {
        assert!(audit.record(event()).await, "requests go on");
        tokio::task::yield_now().await;
    }
    let dropped: usize = counted(&audit, "buffered").parse().unwrap();
    // The buffer, the lists being posted, and the list that waits for a slot.
    assert_eq!(dropped, 200 - 4 - limits::AUDIT_LISTS - 1);
    let began = Instant::now();
    audit.end().await;
    assert!(began.elapsed() < CALL / 2, "the end does not wait for ever");
}

#[tokio::test]
async fn events_that_truncation_cannot_shrink_enough_are_dropped() {
    let server = TestServer::start(|_| taken()).await;
    let audit = audit(&server.config(), options(Mode::BlockingStrict));
    assert!(!audit.record(vec![None]).await);
    assert_eq!(server.count(), 0);
}
