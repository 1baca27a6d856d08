//! Tests that counted requests appear on the page.

use super::*;
use kstore_api::kind;

#[tokio::test(start_paused = true)]
async fn answered_requests_appear_by_verb_resource_and_code() {
    let pods = kind::lookup("", "v1", "pods").unwrap();
    let metrics = Metrics::default();
    let create = Kind::of("POST", pods, "", "default", "");
    for milliseconds in [7, 70_000] {
        let measured = metrics.begin(create, false);
        tokio::time::advance(Duration::from_millis(milliseconds)).await;
        measured.end(201);
    }
    metrics.begin(create, true).end(418);
    metrics.append(|out| out.push_str("workqueue_depth{name=\"web\"} 0\n"));
    drop(metrics.begin(create, false));
    let open = metrics.begin(create, false);
    let text = metrics.render(Minor::V34, [(pods, 2)].into_iter());
    for expected in [
        r#"apiserver_request_total{verb="POST",group="",version="v1",resource="pods",subresource="",scope="resource",component="apiserver",dry_run="",code="201"} 2"#,
        r#"dry_run="All",code="418"} 1"#,
        r#"component="apiserver",dry_run="",le="0.005"} 0"#,
        r#"component="apiserver",dry_run="",le="0.025"} 1"#,
        r#"component="apiserver",dry_run="",le="+Inf"} 2"#,
        r#"scope="resource"} 1"#,
        r#"apiserver_current_inflight_requests{request_kind="mutating"} 1"#,
        r#"apiserver_current_inflight_requests{request_kind="readOnly"} 0"#,
        r#"apiserver_resource_objects{group="",resource="pods"} 2"#,
        r#"apiserver_storage_objects{resource="pods"} 2"#,
        "workqueue_depth{name=\"web\"} 0",
    ] {
        assert!(text.contains(expected), "{expected} not in\n{text}");
    }
    open.end(500);
    assert!(metrics.render(Minor::DEFAULT, std::iter::empty()).contains(r#"request_kind="mutating"} 0"#));
}

#[test]
fn metrics_do_not_contain_user_names() {
    let metrics = Metrics::default();
    metrics.authenticated(Ok("jane@example.com"), Duration::ZERO);
    metrics.authenticated(Ok("kubernetes-admin"), Duration::ZERO);
    metrics.authenticated(Err(()), Duration::ZERO);
    let text = metrics.render(Minor::DEFAULT, std::iter::empty());
    assert!(text.contains(r#"authenticated_user_requests{username="email_id"} 1"#));
    assert!(text.contains(r#"authenticated_user_requests{username="other"} 1"#));
    assert!(text.contains(r#"authentication_attempts{result="failure"} 1"#));
    assert!(!text.contains("jane") && !text.contains("admin\""));
}
