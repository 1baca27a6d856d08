//! Webhooks that cannot be reached while a plan says so.

use super::{CONFIG_MAPS, config_map, lab_with};
use crate::clock::Mode;
use crate::host::ComponentChoice;
use crate::registry::LabConfig;
use crate::template::{ClusterStart, Configured, DefaultTemplate, Template};
use axum::body::Body;
use futures::future::{BoxFuture, FutureExt as _, ready};
use http::{Method, Request, Response};
use kstore_registry::lookup::Lookup;
use kstore_registry::outbound::{Answer, ApiBackend, Call, NoAnswer, Outbound, Unreachable};
use serde_json::{Value, json};
use std::sync::Arc;

/// Webhooks that allow everything.
#[derive(Debug)]
struct Allowing;

impl Outbound for Allowing {
    fn post(&self, _: Arc<dyn Lookup>, call: Call) -> BoxFuture<'static, Result<Answer, NoAnswer>> {
        let review: Value = serde_json::from_slice(&call.body).unwrap();
        let response = json!({"uid": review["request"]["uid"], "allowed": true});
        let answer =
            json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response});
        let body = serde_json::to_vec(&answer).unwrap().into();
        ready(Ok(Answer { status: 200, content_type: "application/json".to_owned(), body })).boxed()
    }

    fn check(&self, _: &dyn Lookup, _: &ApiBackend) -> Result<(), Unreachable> {
        Ok(())
    }

    fn forward(
        &self,
        _: Arc<dyn Lookup>,
        _: ApiBackend,
        _: Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Body>, NoAnswer>> {
        ready(Err(NoAnswer("nothing is behind an APIService".to_owned()))).boxed()
    }
}

#[derive(Debug)]
struct WithWebhooks;

impl Template for WithWebhooks {
    fn configure(&self, start: &ClusterStart<'_>) -> Result<Configured, String> {
        let mut configured = DefaultTemplate::default().configure(start)?;
        configured.server.network.outbound = Arc::new(Allowing);
        Ok(configured)
    }
}

/// A configuration of a webhook that is called for each new ConfigMap.
fn configuration(name: &str, policy: &str) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name}, "webhooks": [{
            "name": format!("{name}.example.com"), "clientConfig": {"url": format!("https://hook.test:8443/{name}")},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
            "failurePolicy": policy, "sideEffects": "None", "admissionReviewVersions": ["v1"]}]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_a_webhook_fail_while_a_plan_says_so() {
    let config = LabConfig {
        template: Arc::new(WithWebhooks),
        components: ComponentChoice::NONE,
        mode: Mode::Manual,
        ..LabConfig::default()
    };
    let (lab, admin) = lab_with(config).await;
    let configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    for (name, policy) in [("strict", "Fail"), ("lenient", "Ignore")] {
        let made = admin.api(Method::POST, configurations, Some(configuration(name, policy))).await;
        assert_eq!(made.code, 201, "{}", made.body);
    }
    let create = async |name: &str| {
        let answer = admin.api(Method::POST, CONFIG_MAPS, Some(config_map(name))).await;
        (answer.code, answer.body["message"].as_str().unwrap_or_default().to_owned())
    };
    let start = async |name: &str, actions: Value| {
        let body = json!({"name": name, "actions": actions});
        assert_eq!(admin.lab(Method::POST, "/plans", Some(body)).await.code, 201);
    };
    let report = async |name: &str| admin.lab(Method::GET, &format!("/plans/{name}"), None).await.body;
    let end = async |name: &str| {
        assert_eq!(admin.lab(Method::DELETE, &format!("/plans/{name}"), None).await.code, 200);
    };
    assert_eq!(create("a").await.0, 201);

    // From the request of the trigger on, that one included, until a write.
    let trigger = json!({"request": {"verb": "create", "resource": "configmaps", "nth": 1}});
    let until = json!({"write": {"resource": "secrets"}});
    let strict = json!({"action": "webhook-down", "webhook": "strict.example.com", "until": until,
        "trigger": trigger});
    start("strict", json!([strict])).await;
    let (code, message) = create("b").await;
    let expected = "failed calling webhook \"strict.example.com\": failed to call webhook: \
        Post \"https://hook.test:8443/strict?timeout=10s\": dial tcp hook.test:8443: connect: connection refused";
    assert!(code == 500 && message.contains(expected), "{code} {message}");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    assert_eq!(admin.api(Method::POST, "/api/v1/namespaces/default/secrets", Some(secret)).await.code, 201);
    until_done(&report, "strict").await;
    assert_eq!(create("b").await.0, 201, "it can be reached again");
    end("strict").await;

    // A webhook that may fail is passed over; without an end the operation ends with the plan.
    let down = |webhook: &str| json!([{"action": "webhook-down", "webhook": webhook, "how": "timeout", "trigger": trigger}]);
    start("strict", down("strict.example.com")).await;
    let (code, message) = create("c").await;
    assert!(code == 500 && message.contains("context deadline exceeded"), "{code} {message}");
    end("strict").await;
    let created = async || create("c").await.0 == 201;
    while !created().await {
        tokio::task::yield_now().await;
    }
    start("lenient", down("lenient.example.com")).await;
    assert_eq!(create("d").await.0, 201, "its policy is Ignore");
    end("lenient").await;

    start("none", down("none.example.com")).await;
    assert_eq!(create("e").await.0, 201);
    let state = until_done(&report, "none").await;
    let (state, why) = (&state["actions"][0]["state"], &state["actions"][0]["why"]);
    assert_eq!(
        (state, why),
        (&json!("skipped"), &json!("there is no admission webhook \"none.example.com\""))
    );
    lab.end().await;
}

/// The report of a plan once it is done.
async fn until_done(report: &impl AsyncFn(&str) -> Value, plan: &str) -> Value {
    loop {
        let state = report(plan).await;
        if state["state"] == "done" {
            return state;
        }
        tokio::task::yield_now().await;
    }
}
