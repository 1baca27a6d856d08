//! Tests of webhook requests and responses, malformed ones included.

use super::super::attributes::Attributes;
use super::super::review::transport::HttpAnswer;
use super::super::review::{CallError, DecodedResponse, apply_patch, encode_request, read_answer};
use super::super::selection::MatchedForm;
use super::super::webhook::Phase;
use super::{hook, request};
use crate::limits::WARNINGS_MAX;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

fn http(body: &[u8]) -> HttpAnswer<'_> {
    HttpAnswer { status: 200, content_type: "application/json", body }
}

fn read(phase: Phase, versions: &Value, body: &Value) -> Result<DecodedResponse, CallError> {
    let hook = hook(phase, &json!({"admissionReviewVersions": versions}));
    read_answer(&hook, "u", &http(body.to_string().as_bytes()))
}

fn answer(response: Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

fn failure(phase: Phase, body: &Value) -> String {
    read(phase, &json!(["v1"]), body).unwrap_err().to_string()
}

#[test]
fn review_requests_have_the_matched_form() {
    let object = json!({"kind": "ConfigMap"});
    let attributes = Attributes { subresource: "status", ..request(Some(&object)) };
    let form = MatchedForm { resource: attributes.resource, kind: attributes.kind };
    let h = hook(Phase::Validating, &json!({"admissionReviewVersions": ["v7", "v1beta1", "v1"]}));
    let body = encode_request(&h, &attributes, form, "u", Some(&object), None).unwrap();
    let expected = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1", "request": {
        "uid": "u", "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"}, "subResource": "status",
        "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "requestResource": {"group": "", "version": "v1", "resource": "configmaps"}, "requestSubResource": "status",
        "name": "a", "namespace": "default", "operation": "CREATE", "userInfo": {"username": "admin", "uid": "admin"},
        "object": object, "oldObject": null, "dryRun": false, "options": null}});
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), expected);
    let unknown = hook(Phase::Validating, &json!({"admissionReviewVersions": ["v7"]}));
    let error = encode_request(&unknown, &attributes, form, "u", None, None).unwrap_err();
    assert_eq!(
        error.status().message,
        "Internal error occurred: failed calling webhook \"h.rec.dev\": could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
    );
}

/// Checks the messages of failed calls.
fn check_failures<'c>(cases: impl IntoIterator<Item = (Phase, Value, &'c str)>) {
    for (phase, body, expected) in cases {
        let expected = format!("failed calling webhook \"h.rec.dev\": {expected}");
        assert_eq!(failure(phase, &body), expected, "{body}");
    }
}

#[test]
fn responses_that_are_not_reviews_fail_the_call() {
    check_failures([
        (
            Phase::Validating,
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}),
            "received invalid webhook response: webhook response was absent",
        ),
        (
            Phase::Validating,
            answer(json!({"uid": "x", "allowed": true})),
            "received invalid webhook response: expected response.uid=\"u\", got \"x\"",
        ),
        (
            Phase::Validating,
            json!({"response": {"uid": "u", "allowed": true}}),
            "received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
        ),
        (
            Phase::Validating,
            json!({"apiVersion": "x/y/z", "kind": "A"}),
            "failed to call webhook: unexpected GroupVersion string: x/y/z",
        ),
        (
            Phase::Validating,
            json!({"apiVersion": "v1", "kind": "AdmissionReview"}),
            "failed to call webhook: no kind \"AdmissionReview\" is registered for version \"v1\" in scheme \"k8s.io/apiserver/pkg/util/webhook/client.go:71\"",
        ),
        (
            Phase::Validating,
            json!({"apiVersion": "v1", "kind": "Status"}),
            "failed to call webhook: converting (v1.Status) to (v1.AdmissionReview): unknown conversion",
        ),
        (
            Phase::Validating,
            json!([1]),
            "failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
        ),
        (
            Phase::Validating,
            answer(json!({"uid": 7})),
            "failed to call webhook: json: cannot unmarshal number into Go struct field AdmissionResponse.response.uid of type types.UID",
        ),
        (
            Phase::Validating,
            answer(json!({"allowed": "yes"})),
            "failed to call webhook: json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool",
        ),
        (
            Phase::Validating,
            answer(json!({"status": {"code": 1.5}})),
            "failed to call webhook: json: cannot unmarshal number 1.5 into Go struct field Status.response.status.code of type int32",
        ),
        (
            Phase::Validating,
            answer(json!({"warnings": [1]})),
            "failed to call webhook: json: cannot unmarshal number into Go struct field AdmissionResponse.response.warnings of type string",
        ),
        (
            Phase::Mutating,
            answer(json!({"uid": "u", "patch": "***"})),
            "failed to call webhook: illegal base64 data at input byte 0",
        ),
    ]);
}

#[test]
fn invalid_patch_responses_fail_the_call() {
    let patch = STANDARD.encode("[]");
    check_failures([
        (
            Phase::Validating,
            answer(json!({"uid": "u", "allowed": true, "patch": patch})),
            "received invalid webhook response: validating webhook may not return response.patch",
        ),
        (
            Phase::Validating,
            answer(json!({"uid": "u", "allowed": true, "patchType": "JSONPatch"})),
            "received invalid webhook response: validating webhook may not return response.patchType",
        ),
        (
            Phase::Mutating,
            answer(json!({"uid": "u", "allowed": true, "patch": patch})),
            "received invalid webhook response: webhook returned response.patch but not response.patchType",
        ),
        (
            Phase::Mutating,
            answer(json!({"uid": "u", "allowed": true, "patchType": "JSONPatch"})),
            "received invalid webhook response: webhook returned response.patchType but not response.patch",
        ),
        (
            Phase::Mutating,
            answer(json!({"uid": "u", "allowed": true, "patch": patch, "patchType": ""})),
            "received invalid webhook response: webhook returned invalid response.patchType of \"\"",
        ),
        (
            Phase::Mutating,
            answer(
                json!({"uid": "u", "allowed": true, "patch": STANDARD.encode("[{}]"), "patchType": "Merge"}),
            ),
            "unsupported patch type \"Merge\"",
        ),
        (
            Phase::Mutating,
            answer(
                json!({"uid": "u", "allowed": true, "patch": STANDARD.encode("[{"), "patchType": "JSONPatch"}),
            ),
            "received undecodable patch in webhook response: unexpected end of JSON input",
        ),
        (
            Phase::Mutating,
            answer(
                json!({"uid": "u", "allowed": true, "patch": STANDARD.encode("[1]"), "patchType": "JSONPatch"}),
            ),
            "received undecodable patch in webhook response: json: cannot unmarshal number into Go value of type jsonpatch.Operation",
        ),
    ]);
}

#[test]
fn http_failures_have_the_messages_of_kubernetes() {
    let h = hook(Phase::Validating, &json!({}));
    let text = |status, content_type, body: &str| {
        let answer = HttpAnswer { status, content_type, body: body.as_bytes() };
        let error = read_answer(&h, "u", &answer).unwrap_err().reason;
        error.strip_prefix("failed to call webhook: ").unwrap().to_owned()
    };
    let own = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"go away","code":403}"#;
    let cases = [
        (
            500,
            "text/plain; charset=utf-8",
            " broken \"x\" ",
            "an error on the server (\"broken \\\"x\\\"\") has prevented the request from succeeding",
        ),
        (
            502,
            "application/json",
            "x",
            "an error on the server (\"unknown\") has prevented the request from succeeding",
        ),
        (403, "text/plain", "no entry", "no entry"),
        (403, "application/json", own, "go away"),
        (503, "", "x", "the server is currently unable to handle the request"),
        (418, "", "x", "the server responded with the status code 418 but did not return more information"),
        (100, "", "x", "the server responded with the status code 100 but did not return more information"),
        (200, "", "", "0-length response with status code: 200 and content type: application/json"),
        (
            200,
            "text/html",
            "<html>",
            "couldn't get version/kind; json parse error: invalid character '<' looking for beginning of value",
        ),
    ];
    for (status, content_type, body, expected) in cases {
        assert_eq!(text(status, content_type, body), expected);
    }
}

#[test]
fn v1beta1_responses_have_fewer_checks() {
    let body = |response: Value| json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "response": response});
    let patch = STANDARD.encode(r#"[{"op":"add","path":"/a","value":1}]"#);
    let read = |phase, response| read(phase, &json!(["v1beta1"]), &body(response)).unwrap().verdict.unwrap();
    assert!(read(Phase::Mutating, json!({"uid": "other", "allowed": true, "patch": patch})).is_some());
    assert!(read(Phase::Validating, json!({"allowed": true, "patch": patch})).is_none());
}

#[test]
fn denials_have_code_reason_and_details_of_the_webhook() {
    let denied = |status: Value| {
        let body = answer(json!({"uid": "u", "allowed": false, "status": status}));
        let status = read(Phase::Validating, &json!(["v1"]), &body).unwrap().verdict.unwrap_err();
        serde_json::to_value(status).unwrap()
    };
    let of = |message: &str, members: Value| {
        let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 400,
            "message": format!("admission webhook \"h.rec.dev\" denied the request{message}")});
        for (name, value) in members.as_object().unwrap() {
            status[name] = value.clone();
        }
        status
    };
    assert_eq!(denied(Value::Null), of(" without explanation", json!({})));
    assert_eq!(denied(json!({"message": "no", "status": "Success", "code": 200})), of(": no", json!({})));
    assert_eq!(denied(json!({"reason": "odd"})), of(": odd", json!({"reason": "odd"})));
    let details = json!({"retryAfterSeconds": 3, "causes": [{"reason": "r", "message": "m", "field": "f"}]});
    let full = json!({"message": "many", "reason": "TooManyRequests", "code": 429, "details": details});
    assert_eq!(
        denied(full),
        of(": many", json!({"reason": "TooManyRequests", "code": 429, "details": details}))
    );
    assert_eq!(denied(json!({"code": 2_000_000}))["code"], 999);
    assert_eq!(denied(json!({"code": -1, "details": {"retryAfterSeconds": -5}}))["code"], 400);
}

#[test]
fn patches_apply_to_the_sent_object() {
    let h = hook(Phase::Mutating, &json!({}));
    let patch = |operations: &Value| {
        let body = answer(
            json!({"uid": "u", "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())}),
        );
        read(Phase::Mutating, &json!(["v1"]), &body).unwrap().verdict.unwrap()
    };
    assert!(patch(&json!([])).is_none() && patch(&Value::Null).is_none());
    let object = json!({"data": {"k": "v"}});
    let add = patch(&json!([{"op": "add", "path": "/data/x", "value": "1"}])).unwrap();
    assert_eq!(apply_patch(&h, &add, Some(&object)).unwrap(), json!({"data": {"k": "v", "x": "1"}}));
    let refused = |operations: Value, object: Option<&Value>| {
        let status = apply_patch(&h, &patch(&operations).unwrap(), object).unwrap_err();
        assert_eq!(status.code, 500);
        status.message
    };
    assert_eq!(
        refused(json!([{"op": "add", "path": "/metadata/labels/x", "value": "1"}]), Some(&object)),
        "Internal error occurred: add operation does not apply: doc is missing path: \"/metadata/labels/x\": missing value"
    );
    assert_eq!(
        refused(json!([{"op": "zap"}]), None),
        "Internal error occurred: admission webhook \"h.rec.dev\" attempted to modify the object, which is not supported for this operation"
    );
    let copy = json!({"op": "copy", "from": "/data", "path": "/data/k"});
    let many = Value::from(vec![copy; 64]);
    assert!(
        refused(many, Some(&json!({"data": {"k": "v".repeat(100_000)}}))).contains("exceeding the limit")
    );
    assert!(
        refused(Value::from(vec![json!({"op": "test", "path": ""}); 20_000]), Some(&object))
            .contains("allowed maximum operations")
    );
}

#[test]
fn warnings_and_audit_annotations_are_bounded() {
    let annotations: serde_json::Map<String, Value> =
        (0..1000).map(|i| (i.to_string(), "é".repeat(10_000).into())).collect();
    let body = answer(
        json!({"uid": "u", "allowed": true, "warnings": vec!["w"; 10_000], "auditAnnotations": annotations}),
    );
    let answer = read(Phase::Validating, &json!(["v1"]), &body).unwrap();
    assert_eq!(answer.warnings.len(), WARNINGS_MAX);
    assert_eq!(answer.audit_annotations.len(), 64);
    assert_eq!(answer.audit_annotations[0].key, "h.rec.dev/0");
    assert!(answer.audit_annotations.iter().all(|annotation| annotation.value.len() <= 10 * 1024));
}

proptest::proptest! {
    #[test]
    fn decoding_arbitrary_responses_never_panics(status in 0u16.., content_type in ".{0,20}", body: Vec<u8>, text in "[\\[\\]{}\":,a-z0-9 ]{0,80}") {
        let h = hook(Phase::Mutating, &json!({}));
        for body in [&body[..], text.as_bytes()] {
            let _ = read_answer(&h, "u", &HttpAnswer { status, content_type: &content_type, body }).is_ok();
            let _ = read_answer(&h, "u", &http(body)).is_ok();
        }
    }
}
