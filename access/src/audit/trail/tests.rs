//! Tests of trails without a server: the events of each stage.

use super::*;
use crate::audit::backend::{Backend, Mode, QueueBounds, QueuedEvent};
use crate::audit::metrics::{AuditMetrics, Plugin};
use crate::audit::policy::Policy;
use kstore_nondet::Nondet;
use serde_json::json;
use tokio::sync::mpsc::Receiver;

/// An audit log that records all stages of all requests at a level, without waiting.
fn audit(level: &str) -> (Arc<Audit>, Receiver<QueuedEvent>) {
    let policy = format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{{level: {level}}}]}}");
    let policy = Policy::parse(policy.as_bytes()).unwrap();
    let metrics = Arc::new(AuditMetrics::default());
    let bounds = QueueBounds { queue: limits::AUDIT_QUEUE, event: limits::AUDIT_EVENT_BYTES };
    let (backend, queue) = Backend::new(Plugin::Log, Mode::Batch, bounds, metrics.clone());
    let mut audit = Audit::by(policy);
    (audit.backends, audit.metrics) = (vec![backend], metrics);
    (Arc::new(audit), queue)
}

fn trail(audit: &Arc<Audit>) -> Arc<Trail> {
    let mut extensions = Extensions::new();
    extensions.insert(Peer::InProcess(Arc::new(UserInfo::new("ann", ["devs"]))));
    Trail::begin(audit, Nondet::real().clock, "id", "/uri".into(), &HeaderMap::new(), &extensions)
}

fn operation(verb: &str, subresource: &str) -> Operation {
    let location = ResourceLocation {
        resource: "pods".into(),
        subresource: subresource.into(),
        name: "a".into(),
        ..ResourceLocation::default()
    };
    Operation { verb: verb.into(), version: "v1".into(), location: Some(location), path: String::new() }
}

fn events(queue: &mut Receiver<QueuedEvent>) -> Vec<Value> {
    std::iter::from_fn(|| queue.try_recv().ok())
        .map(|queued| serde_json::from_slice(&queued.line).unwrap())
        .collect()
}

fn stages(queue: &mut Receiver<QueuedEvent>) -> Vec<String> {
    events(queue).iter().map(|event| event["stage"].as_str().unwrap().to_owned()).collect()
}

fn authorizer() -> Authorizer {
    let modes = authz::Modes::new([authz::Mode::AlwaysAllow]);
    Authorizer::of_modes(Arc::new(kstore_registry::testing::MapLookup::default()), modes)
}

#[tokio::test]
async fn a_request_whose_client_leaves_is_recorded_with_code_499() {
    let (audit, mut queue) = audit("Metadata");
    let trail = trail(&audit);
    let end = trail.stream_end();
    trail.received(vec![operation("update", "")]).await.unwrap();
    assert_eq!(stages(&mut queue), ["RequestReceived"]);
    drop(end);
    let [event] = &events(&mut queue)[..] else { panic!("one event") };
    assert_eq!(
        (&event["stage"], &event["responseStatus"]["code"]),
        (&json!("ResponseComplete"), &json!(499))
    );
}

#[tokio::test]
async fn short_requests_complete_with_their_response_and_long_running_ones_with_their_stream() {
    let (audit, mut queue) = audit("Metadata");
    for (verb, subresource, is_long) in [
        ("get", "", false),
        ("list", "", false),
        ("watch", "", true),
        ("get", "log", true),
        ("create", "exec", true),
        ("get", "proxy", true),
        ("get", "status", false),
    ] {
        let trail = trail(&audit);
        let (end, other) = (trail.stream_end(), trail.stream_end());
        trail.received(vec![operation(verb, subresource)]).await.unwrap();
        assert_eq!(trail.answered(&authorizer(), 200, None).await, is_long, "{verb} {subresource}");
        let answer = if is_long { "ResponseStarted" } else { "ResponseComplete" };
        assert_eq!(stages(&mut queue), ["RequestReceived", answer], "{verb} {subresource}");
        drop(end);
        assert!(stages(&mut queue).is_empty(), "a part of the stream is left");
        drop(other);
        let end: &[&str] = if is_long { &["ResponseComplete"] } else { &[] };
        assert_eq!(stages(&mut queue), end, "{verb} {subresource}");
    }
}

#[tokio::test]
async fn a_panic_is_recorded_as_the_last_stage() {
    let (audit, mut queue) = audit("RequestResponse");
    let trail = trail(&audit);
    let end = trail.stream_end();
    trail.received(vec![operation("watch", "")]).await.unwrap();
    trail.answered(&authorizer(), 500, Some(&panicked())).await;
    drop(end);
    assert_eq!(stages(&mut queue), ["RequestReceived", "Panic"]);
}

#[tokio::test]
async fn objects_are_recorded_as_the_level_says_and_complete_the_reference() {
    for (level, has_request, has_response) in
        [("Metadata", false, false), ("Request", true, false), ("RequestResponse", true, true)]
    {
        let (audit, mut queue) = audit(level);
        let trail = trail(&audit);
        let mut create = operation("create", "");
        create.location.as_mut().unwrap().name.clear();
        // The second operation of a call has objects of its own.
        trail.received(vec![operation("get", ""), create]).await.unwrap();
        let object = json!({"metadata": {"name": "made", "managedFields": []}});
        trail.request_object(1, || Some((object.clone(), true)));
        trail.response_object(1, || Some(object.clone()));
        trail.answered(&authorizer(), 201, None).await;
        let events = events(&mut queue);
        let [_, _, get, create] = &events[..] else { panic!("two stages of two operations") };
        assert_eq!((&get["objectRef"]["name"], &create["objectRef"]["name"]), (&json!("a"), &json!("made")));
        assert_eq!(create.get("requestObject").is_some(), has_request, "{level}");
        assert_eq!(create.get("responseObject").is_some(), has_response, "{level}");
        assert!(get.get("requestObject").is_none() && get.get("responseObject").is_none(), "{get}");
        assert_eq!(create["annotations"]["authorization.k8s.io/decision"], "allow");
    }
}

#[tokio::test]
async fn annotations_of_a_task_are_recorded_with_its_request() {
    let (audit, mut queue) = audit("Metadata");
    let trail = trail(&audit);
    trail.received(vec![operation("get", "")]).await.unwrap();
    assert!(!is_recording() && current().is_none());
    scope(trail.clone(), async {
        assert!(is_recording());
        record_impersonation(&Arc::new(UserInfo::new("ann", ["devs"])));
        let annotation = |value: &str| AuditAnnotation { key: "a.io/b".into(), value: value.into() };
        current().unwrap().annotate(vec![annotation("first"), annotation("second")]);
    })
    .await;
    trail.answered(&authorizer(), 200, None).await;
    let event = events(&mut queue).pop().unwrap();
    assert_eq!(event["annotations"]["a.io/b"], "first");
    assert!(event["impersonatedUser"].is_null(), "the request did not impersonate");
    scope(trail.clone(), async { record_impersonation(&Arc::new(UserInfo::new("bob", [""; 0]))) }).await;
    assert_eq!(trail.state.lock().impersonated.as_ref().unwrap().username, "bob");
}

#[test]
fn long_user_agents_are_truncated() {
    let agent = format!("{}é", "a".repeat(limits::AUDIT_AGENT_BYTES - 1));
    assert_eq!(
        truncated_user_agent(&agent),
        format!("{}{TRUNCATED_SUFFIX}", "a".repeat(limits::AUDIT_AGENT_BYTES - 1))
    );
    assert_eq!(truncated_user_agent("kubectl/v1"), "kubectl/v1");
}
