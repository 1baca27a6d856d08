//! Metrics of webhooks, admission policies and aggregated API servers, under Kubernetes' names.

use super::versions::{self, V1, V2};
use kstore_tests::webhooks::reviewed;
use kstore_tests::{Cluster, Setup, Webhooks, simulate};
use serde_json::{Value, json};

async fn post(cluster: &Cluster, path: &str, body: &Value) -> u16 {
    cluster.rest().call("POST", path, body.to_string()).await.code
}

/// The value of a series; `None` if it is not on the page.
async fn value(cluster: &Cluster, series: &str) -> Option<String> {
    let reply = cluster.rest().call("GET", "/metrics", "").await;
    let page = String::from_utf8(reply.body.to_vec()).unwrap();
    let mut values = page.lines().filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    values.next().map(str::to_owned)
}

/// Asserts that each series has its expected value.
async fn assert_series(cluster: &Cluster, expected: &[(&str, &str)]) {
    for (series, wanted) in expected {
        assert_eq!(value(cluster, series).await.as_deref(), Some(*wanted), "{series}");
    }
}

/// A webhook configuration for ConfigMaps with one hook per path and failure policy.
fn configuration(kind: &str, hooks: &[(&str, &str)]) -> Value {
    let hook = |(path, policy): &(&str, &str)| {
        json!({"name": format!("{path}.hooks.test"), "sideEffects": "None", "failurePolicy": policy,
            "admissionReviewVersions": ["v1"], "clientConfig": Webhooks::client_config(&format!("/{path}")),
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]})
    };
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "hooks"},
        "webhooks": hooks.iter().map(hook).collect::<Vec<_>>()})
}

#[test]
fn admission_webhook_calls_are_counted_by_decision() {
    const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";
    simulate(Setup::api_alone(), async |cluster| {
        let hooks = cluster.webhooks();
        hooks.serve("/allows", |review| reviewed(review, json!({"allowed": true})));
        hooks.serve("/judges", |review| {
            let is_allowed = review["request"]["name"] != "refused";
            reviewed(review, json!({"allowed": is_allowed, "status": {"code": 409, "message": "no"}}))
        });
        hooks.serve("/broken", |_| json!("no review"));
        let mutating =
            configuration("MutatingWebhookConfiguration", &[("allows", "Fail"), ("broken", "Ignore")]);
        let path = format!("{REGISTRATION}/mutatingwebhookconfigurations");
        assert_eq!(post(cluster, &path, &mutating).await, 201);
        let validating = configuration("ValidatingWebhookConfiguration", &[("judges", "Fail")]);
        let path = format!("{REGISTRATION}/validatingwebhookconfigurations");
        assert_eq!(post(cluster, &path, &validating).await, 201);
        let maps = "/api/v1/namespaces/default/configmaps";
        assert_eq!(post(cluster, maps, &json!({"metadata": {"name": "taken"}})).await, 201);
        assert_eq!(post(cluster, maps, &json!({"metadata": {"name": "refused"}})).await, 409);
        let expected = [
            (
                r#"apiserver_admission_webhook_request_total{code="200",name="allows.hooks.test",operation="CREATE",rejected="false",type="admit"}"#,
                "2",
            ),
            (
                r#"apiserver_admission_webhook_request_total{code="503",name="broken.hooks.test",operation="CREATE",rejected="false",type="admit"}"#,
                "2",
            ),
            (
                r#"apiserver_admission_webhook_request_total{code="200",name="judges.hooks.test",operation="CREATE",rejected="false",type="validating"}"#,
                "1",
            ),
            (
                r#"apiserver_admission_webhook_request_total{code="409",name="judges.hooks.test",operation="CREATE",rejected="true",type="validating"}"#,
                "1",
            ),
            (
                r#"apiserver_admission_webhook_admission_duration_seconds_count{name="judges.hooks.test",operation="CREATE",rejected="true",type="validating"}"#,
                "1",
            ),
            (
                r#"apiserver_admission_webhook_rejection_count{error_type="no_error",name="judges.hooks.test",operation="CREATE",rejection_code="409",type="validating"}"#,
                "1",
            ),
            (r#"apiserver_admission_webhook_fail_open_count{name="broken.hooks.test",type="admit"}"#, "2"),
        ];
        assert_series(cluster, &expected).await;
        // The failure counts as a rejection under the policy Fail.
        let path = format!("{REGISTRATION}/mutatingwebhookconfigurations/hooks");
        let change =
            json!([{"op": "replace", "path": "/webhooks/1/failurePolicy", "value": "Fail"}]).to_string();
        let changed = cluster.rest().call_as("PATCH", &path, "application/json-patch+json", change).await;
        assert_eq!(changed.code, 200, "{}", changed.json());
        assert_eq!(post(cluster, maps, &json!({"metadata": {"name": "third"}})).await, 500);
        let expected = [
            (
                r#"apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="broken.hooks.test",operation="CREATE",rejection_code="503",type="admit"}"#,
                "1",
            ),
            (r#"apiserver_admission_webhook_fail_open_count{name="broken.hooks.test",type="admit"}"#, "2"),
        ];
        assert_series(cluster, &expected).await;
    });
}

/// Creates a policy of this kind for ConfigMaps, and its binding of the same name.
async fn bind(cluster: &Cluster, kind: &str, plural: &str, name: &str, policy: &Value, binding: &Value) {
    const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";
    let rules = json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
    let mut policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "spec": policy});
    policy["spec"]["matchConstraints"] = json!({"resourceRules": rules});
    assert_eq!(post(cluster, &format!("{REGISTRATION}/{plural}"), &policy).await, 201);
    let mut binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}Binding"),
        "metadata": {"name": name}, "spec": binding});
    binding["spec"]["policyName"] = name.into();
    let plural = format!("{}bindings", plural.replace("policies", "policy"));
    assert_eq!(post(cluster, &format!("{REGISTRATION}/{plural}"), &binding).await, 201);
}

#[test]
fn admission_policy_checks_are_counted_once_per_action() {
    simulate(Setup::api_alone(), async |cluster| {
        // A decision that waits for a webhook is evaluated again.
        cluster.webhooks().serve("/allows", |review| reviewed(review, json!({"allowed": true})));
        let waiting = configuration("ValidatingWebhookConfiguration", &[("allows", "Fail")]);
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        assert_eq!(post(cluster, path, &waiting).await, 201);
        let (kind, plural) = ("ValidatingAdmissionPolicy", "validatingadmissionpolicies");
        let false_unless_allowed =
            json!({"validations": [{"expression": "object.metadata.name == 'allowed'"}]});
        let warns = json!({"validationActions": ["Warn", "Audit"]});
        bind(cluster, kind, plural, "warns", &false_unless_allowed, &warns).await;
        let no_value = |policy: &str| {
            let fails = "object.data.missing == 'x'";
            json!({"failurePolicy": policy, "validations": [{"expression": fails}, {"expression": "true"}]})
        };
        let denies = json!({"validationActions": ["Deny"]});
        bind(cluster, kind, plural, "passes-over", &no_value("Ignore"), &denies).await;
        let (kind, plural) = ("MutatingAdmissionPolicy", "mutatingadmissionpolicies");
        let labels = "Object{metadata: Object.metadata{labels: {'a': 'b'}}}";
        let mutation = |expression: &str| {
            json!({"failurePolicy": "Ignore", "reinvocationPolicy": "Never", "mutations":
                [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]})
        };
        bind(cluster, kind, plural, "labels", &mutation(labels), &json!({})).await;
        let fails = "object.data.missing == 'x' ? Object{} : Object{}";
        bind(cluster, kind, plural, "fails", &mutation(fails), &json!({})).await;

        let maps = "/api/v1/namespaces/default/configmaps";
        assert_eq!(
            post(cluster, maps, &json!({"metadata": {"name": "allowed"}, "data": {"a": "b"}})).await,
            201
        );
        assert_eq!(
            post(cluster, maps, &json!({"metadata": {"name": "other"}, "data": {"a": "b"}})).await,
            201
        );
        let validating = |policy: &str, error: &str, action: &str| {
            format!(
                r#"{{enforcement_action="{action}",error_type="{error}",policy="{policy}",policy_binding="{policy}"}}"#
            )
        };
        let name = "apiserver_validating_admission_policy_check";
        let (warned, noted) =
            (validating("warns", "invalid_error", "warn"), validating("warns", "invalid_error", "audit"));
        let passed = validating("passes-over", "invalid_error", "allow");
        let mutating = |policy: &str, error: &str| {
            format!(r#"{{error_type="{error}",policy="{policy}",policy_binding="{policy}"}}"#)
        };
        let mutating_name = "apiserver_mutating_admission_policy_check";
        let expected = [
            (format!("{name}_total{warned}"), "1"),
            (format!("{name}_total{noted}"), "1"),
            (format!("{name}_duration_seconds_count{warned}"), "1"),
            (format!("{name}_total{passed}"), "2"),
            (format!("{mutating_name}_total{}", mutating("labels", "no_error")), "2"),
            (format!("{mutating_name}_total{}", mutating("fails", "invalid_error")), "2"),
            (format!("{mutating_name}_duration_seconds_count{}", mutating("labels", "no_error")), "2"),
        ];
        let expected: Vec<_> = expected.iter().map(|(series, wanted)| (series.as_str(), *wanted)).collect();
        assert_series(cluster, &expected).await;

        let (kind, plural) = ("ValidatingAdmissionPolicy", "validatingadmissionpolicies");
        bind(cluster, kind, plural, "denies", &no_value("Fail"), &denies).await;
        assert_eq!(
            post(cluster, maps, &json!({"metadata": {"name": "allowed-2"}, "data": {"a": "b"}})).await,
            422
        );
        let denied = format!("{name}_total{}", validating("denies", "invalid_error", "deny"));
        assert_series(cluster, &[(&denied, "1"), (&format!("{name}_total{passed}"), "3")]).await;
    });
}

#[test]
fn webhook_conversions_are_counted_by_definition_and_failure() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.webhooks().serve("/convert", versions::convert);
        assert_eq!(post(cluster, versions::DEFINITIONS, &versions::definition()).await, 201);
        let door = json!({"apiVersion": "net.test/v1", "kind": "Door", "metadata": {"name": "a"}, "hostPort": "here:80"});
        assert_eq!(post(cluster, V1, &door).await, 201);
        let get = async || cluster.rest().call("GET", &format!("{V2}/a"), "").await.code;
        assert_eq!(get().await, 200);
        let converted = r#"{crd_name="doors.net.test",from_version="v1",succeeded="true",to_version="v2"}"#;
        let series = format!("apiserver_crd_conversion_webhook_duration_seconds_count{converted}");
        assert_series(
            cluster,
            &[
                (&series, "1"),
                (r#"apiserver_conversion_webhook_request_total{failure_type="",result="success"}"#, "1"),
            ],
        )
        .await;
        let mut other = door.clone();
        other["metadata"]["name"] = json!("b");
        assert_eq!(post(cluster, V1, &other).await, 201);
        let failing: [(ReviewHandler, &str); 3] = [
            (|_| json!("no review"), "conversion_webhook_malformed_response_failure"),
            (|review| returning(review, json!([])), "conversion_webhook_partial_response_failure"),
            (
                |review| returning(review, json!([{"apiVersion": "net.test/v1", "kind": "Door"}])),
                "conversion_webhook_invalid_converted_object_failure",
            ),
        ];
        for (answer, failure) in failing {
            cluster.webhooks().serve("/convert", answer);
            let listed = cluster.rest().call("GET", &format!("{V2}/b"), "").await;
            assert_eq!(listed.code, 500, "{}", listed.json());
            let series = format!(
                r#"apiserver_conversion_webhook_request_total{{failure_type="{failure}",result="failure"}}"#
            );
            assert_series(cluster, &[(&series, "1")]).await;
        }
    });
}

/// A function that answers a review.
type ReviewHandler = fn(&Value) -> Value;

/// A review answered with these converted objects.
fn returning(review: &Value, objects: Value) -> Value {
    let mut answer = reviewed(review, json!({"result": {"status": "Success"}, "convertedObjects": objects}));
    answer["kind"] = json!("ConversionReview");
    answer
}

#[test]
fn unavailable_api_services_are_counted_by_name() {
    simulate(Setup::api_alone(), async |cluster| {
        let service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": "v1.missing.example.com"},
            "spec": {"group": "missing.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
                "service": {"namespace": "default", "name": "missing"}}});
        let series = r#"aggregator_unavailable_apiservice{name="v1.missing.example.com"}"#;
        assert_eq!(value(cluster, series).await, None);
        assert_eq!(post(cluster, "/apis/apiregistration.k8s.io/v1/apiservices", &service).await, 201);
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        assert_series(cluster, &[(series, "1")]).await;
    });
}
