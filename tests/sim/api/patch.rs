//! JSON patch, merge patch and strategic merge patch over REST: code, reason and message of refused patches.

use super::warnings;
use kstore_tests::{Cluster, Reply, Setup, manifests, simulate};
use serde_json::{Value, json};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";

async fn patch(cluster: &Cluster, kind: &str, query: &str, body: &str) -> Reply {
    cluster.rest().call_as("PATCH", &format!("{WEB}?{query}"), kind, body.to_owned()).await
}

#[test]
fn a_patch_with_an_undecodable_result_is_refused_at_the_field_patch() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::deployment("web", 1)).await;
        let revision = cluster.store().revision();
        let strict = "fieldValidation=Strict";
        let typed =
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32";
        let cases = [
            (MERGE, "", r#"{"spec":{"replicas":"x"}}"#, typed),
            (JSON, "", r#"[{"op":"replace","path":"/spec/replicas","value":"x"}]"#, typed),
            (STRATEGIC, "", r#"{"spec":{"replicas":"x"}}"#, "unrecognized type: int32"),
            (STRATEGIC, "", r#"{"spec":{"replicas":1.5}}"#, "cannot convert float64 to int32"),
            (STRATEGIC, "", r#"{"metadata":{"labels":"x"}}"#, "cannot restore map from string"),
            (STRATEGIC, "", r#"{"metadata":{"labels":{"x":1}}}"#, "cannot convert int64 to string"),
            (STRATEGIC, "", r#"{"metadata":{"labels":{"x":true}}}"#, "unrecognized type: string"),
            (
                STRATEGIC,
                "",
                r#"{"spec":{"template":{"spec":{"hostAliases":{}}}}}"#,
                "cannot restore slice from map",
            ),
            (STRATEGIC, "", r#"{"spec":{"strategy":[]}}"#, "cannot restore struct from: slice"),
            (MERGE, strict, r#"{"spec":{"odd":1}}"#, "strict decoding error: unknown field \"spec.odd\""),
            (STRATEGIC, strict, r#"{"spec":{"odd":1}}"#, "strict decoding error: unknown field \"spec.odd\""),
            (
                MERGE,
                strict,
                r#"{"spec":{"replicas":1,"replicas":2},"x":{}}"#,
                "strict decoding error: duplicate field \"spec.replicas\", unknown field \"x\"",
            ),
            (
                JSON,
                strict,
                r#"[{"op":"add","path":"/spec/odd","value":1,"why":2}]"#,
                "strict decoding error: json patch unknown field \"[0].why\", unknown field \"spec.odd\"",
            ),
        ];
        for (kind, query, body, want) in cases {
            let reply = patch(cluster, kind, query, body).await;
            let status = reply.json();
            let cause = &status["details"]["causes"][0];
            assert_eq!(
                (reply.code, &status["reason"], &cause["field"]),
                (422, &json!("Invalid"), &json!("patch")),
                "{body}"
            );
            let message = cause["message"].as_str().unwrap();
            assert!(message.starts_with("Invalid value: \"") && message.ends_with(want), "{body}: {message}");
            let text = status["message"].as_str().unwrap();
            assert!(text.starts_with(" \"\" is invalid: patch: Invalid value: "), "{text}");
        }
        let shown = patch(cluster, STRATEGIC, "", r#"{"spec":{"replicas":"x"}}"#).await;
        assert!(
            shown.text("/message").contains("\"map[spec:map[replicas:x]]\""),
            "{}",
            shown.text("/message")
        );
        assert_eq!(cluster.store().revision(), revision);
    });
}

#[test]
fn unknown_members_are_warned_of_unless_ignored() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::deployment("web", 1)).await;
        let reply = patch(cluster, MERGE, "", r#"{"spec":{"odd":1}}"#).await;
        assert_eq!((reply.code, reply.json()["spec"].get("odd")), (200, None));
        assert_eq!(reply.headers["warning"].to_str().unwrap(), r#"299 - "unknown field \"spec.odd\"""#);
        let quiet = patch(cluster, MERGE, "fieldValidation=Ignore", r#"{"spec":{"odd":1}}"#).await;
        assert_eq!((quiet.code, quiet.headers.get("warning")), (200, None));
    });
}

#[test]
fn an_inapplicable_json_patch_operation_is_reported_in_a_warning() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::deployment("web", 1)).await;
        let reply = patch(cluster, JSON, "", r#"[{"op":"test","path":"/spec/replicas","value":9}]"#).await;
        let text = "the server rejected our request due to an error in our request";
        assert_eq!(
            (reply.code, reply.text("/reason").as_str(), reply.text("/message").as_str()),
            (422, "Invalid", text)
        );
        assert_eq!(reply.json()["details"], json!({}), "Kubernetes keeps the reason to itself");
        assert_eq!(warnings(&reply), [r#"299 - "testing value /spec/replicas failed: test failed""#]);
        let absent = patch(cluster, JSON, "", r#"[{"op":"remove","path":"/metadata/annotations/x"}]"#).await;
        let why = r#"299 - "remove operation does not apply: doc is missing path: \"/metadata/annotations/x\": missing value""#;
        assert_eq!((absent.code, warnings(&absent)), (422, vec![why.to_owned()]));
        let added =
            patch(cluster, JSON, "", r#"[{"op":"replace","path":"/spec/paused","value":true}]"#).await;
        assert_eq!(
            (added.code, &added.json()["spec"]["paused"]),
            (200, &json!(true)),
            "a member need not be there"
        );
        let many = json!({ "op": "test", "path": "", "value": {} });
        let reply = patch(cluster, JSON, "", &Value::from(vec![many; 10_001]).to_string()).await;
        let text = "The allowed maximum operations in a JSON patch is 10000, got 10001";
        assert_eq!((reply.code, reply.text("/reason").as_str()), (413, "RequestEntityTooLarge"));
        assert!(reply.text("/message").contains(text), "{}", reply.text("/message"));
    });
}

#[test]
fn content_type_parameters_are_ignored_and_other_types_are_refused() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::deployment("web", 1)).await;
        let labels = r#"{"metadata":{"labels":{"a":"b"}}}"#;
        for kind in [
            MERGE,
            "application/merge-patch+json; charset=utf-8",
            "application/strategic-merge-patch+json;v=1",
        ] {
            assert_eq!(patch(cluster, kind, "", labels).await.code, 200, "{kind}");
        }
        for kind in ["application/json", "text/plain", ""] {
            let reply = patch(cluster, kind, "", labels).await;
            assert_eq!((reply.code, reply.text("/reason").as_str()), (415, "UnsupportedMediaType"), "{kind}");
            for known in [JSON, MERGE, STRATEGIC, "application/apply-patch+yaml"] {
                assert!(reply.text("/message").contains(known), "{}", reply.text("/message"));
            }
        }
        for kind in [JSON, MERGE, STRATEGIC] {
            let reply = patch(cluster, kind, "", "metadata: {labels: {a: b}}").await;
            assert_eq!(reply.code, 400, "only configurations may be YAML");
        }
    });
}

#[test]
fn a_patch_cannot_rename_or_move_an_object() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::deployment("web", 1)).await;
        for (body, want) in [
            (r#"{"metadata":{"namespace":"other"}}"#, "the namespace of the provided object does not match"),
            (r#"{"metadata":{"name":"other"}}"#, "does not match the name on the URL (web)"),
        ] {
            let reply = patch(cluster, MERGE, "", body).await;
            assert_eq!(reply.code, 400, "{body}: {}", reply.text("/message"));
            assert!(reply.text("/message").contains(want), "{}", reply.text("/message"));
        }
    });
}

/// Kubernetes decodes the result of a merge patch as the kind that it names, and converts it; a strategic
/// merge is decoded directly as the endpoint's type.
#[test]
fn a_strategic_patch_may_name_another_kind_and_other_patches_may_not() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::deployment("web", 1)).await;
        for (body, want) in [
            (
                r#"{"apiVersion":"apps/v2"}"#,
                r#"no kind "Deployment" is registered for version "apps/v2" in scheme"#,
            ),
            (r#"{"kind":"Odd"}"#, r#"no kind "Odd" is registered for version "apps/v1" in scheme"#),
            (
                r#"{"kind":"StatefulSet"}"#,
                "converting (v1.StatefulSet) to (apps.Deployment): unknown conversion",
            ),
        ] {
            let reply = patch(cluster, MERGE, "", body).await;
            assert_eq!((reply.code, reply.text("/reason").as_str()), (422, "Invalid"), "{body}");
            assert_eq!(reply.text("/details/causes/0/field"), "patch");
            assert!(reply.text("/message").contains(want), "{}", reply.text("/message"));
        }
        for body in
            [r#"{"kind":"Odd","apiVersion":"v9"}"#, r#"{"kind":"Pod","metadata":{"labels":{"a":"b"}}}"#]
        {
            let done = patch(cluster, STRATEGIC, "", body).await;
            let done = (done.code, done.text("/kind"), done.text("/apiVersion"));
            assert_eq!(done, (200, "Deployment".to_owned(), "apps/v1".to_owned()), "{body}");
        }
        // As Ansible's k8s_scale module sends it.
        let body = r#"{"kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":3}}"#;
        let scale = cluster.rest().call_as("PATCH", &format!("{WEB}/scale"), STRATEGIC, body).await;
        assert_eq!(
            (scale.code, scale.text("/kind")),
            (200, "Scale".to_owned()),
            "{}",
            scale.text("/message")
        );
        assert_eq!(scale.json()["spec"]["replicas"], 3);
    });
}

#[test]
fn the_result_of_a_patch_is_defaulted_and_validated() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::deployment("web", 3)).await;
        let judged = "Deployment.apps \"web\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0";
        let refusals = [
            (MERGE, json!({"spec": {"replicas": -1}}), 422, judged),
            (STRATEGIC, json!({"spec": {"replicas": -1}}), 422, judged),
            (JSON, json!([{"op": "replace", "path": "/spec/replicas", "value": -1}]), 422, judged),
            (
                JSON,
                json!([{"op": "remove", "path": "/spec/template"}]),
                422,
                "spec.template.spec.containers: Required value",
            ),
            (
                STRATEGIC,
                json!({"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}}),
                500,
                "map: map[image:x] does not contain declared merge key: name",
            ),
            (
                STRATEGIC,
                json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {"maxSurge": 1}}}}),
                400,
                "invalid patch format of retainKeys",
            ),
            (STRATEGIC, json!({"spec": {"$patch": "sideways"}}), 500, "sideways"),
            (MERGE, json!([]), 400, ""),
            (STRATEGIC, json!("x"), 400, ""),
            (JSON, json!({}), 400, "error decoding patch"),
        ];
        let revision = cluster.store().revision();
        for (kind, body, code, text) in refusals {
            let reply = patch(cluster, kind, "", &body.to_string()).await;
            let message = reply.text("/message");
            assert!(reply.code == code && message.contains(text), "{kind} {body}: {} {message}", reply.code);
        }
        assert_eq!(cluster.store().revision(), revision, "a refused patch changes nothing");
        let done =
            patch(cluster, MERGE, "", r#"{"spec":{"replicas":null,"revisionHistoryLimit":null}}"#).await;
        let spec = &done.json()["spec"];
        assert_eq!(
            (done.code, &spec["replicas"], &spec["revisionHistoryLimit"]),
            (200, &json!(1), &json!(10))
        );
        let copy = json!([{"op": "copy", "from": "/spec/selector/matchLabels", "path": "/metadata/labels"},
            {"op": "test", "path": "/spec/replicas", "value": 1}]);
        let copied = patch(cluster, JSON, "", &copy.to_string()).await.json();
        assert_eq!(copied["metadata"]["labels"], copied["spec"]["selector"]["matchLabels"]);
    });
}
