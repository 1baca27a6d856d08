//! Tests of status responses as JSON.

use super::*;
use crate::field::Path;
use crate::kind;
use serde_json::{Value, json};

fn deployments() -> &'static Resource {
    kind::lookup("apps", "v1", "deployments").unwrap()
}

fn check(status: &Status, want: Value) {
    let mut full = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"});
    full.as_object_mut().unwrap().extend(want.as_object().unwrap().clone());
    let bytes = status.to_json();
    assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), full);
    assert_eq!(&serde_json::from_slice::<Status>(&bytes).unwrap(), status, "reads back");
    assert!(bytes.starts_with(br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":""#));
}

#[test]
fn responses_about_objects_name_group_resource_and_object() {
    let details = json!({"name": "x", "group": "apps", "kind": "deployments"});
    check(
        &Status::not_found(deployments(), "x"),
        json!({"message": "deployments.apps \"x\" not found", "reason": "NotFound", "code": 404, "details": details}),
    );
    check(
        &Status::being_deleted(("", "pods"), "x"),
        json!({"message": "object is being deleted: pods \"x\" already exists", "reason": "AlreadyExists", "code": 409,
            "details": {"name": "x", "kind": "pods"}}),
    );
    check(
        &Status::conflict(("", "pods"), "x", MODIFIED),
        json!({"message": "Operation cannot be fulfilled on pods \"x\": the object has been modified; please apply your changes to the latest version and try again",
            "reason": "Conflict", "code": 409, "details": {"name": "x", "kind": "pods"}}),
    );
    check(
        &Status::deleted(("", "pods"), "x", "u"),
        json!({"status": "Success", "details": {"name": "x", "kind": "pods", "uid": "u"}}),
    );
    check(
        &Status::method_not_allowed(deployments(), "create"),
        json!({"message": "create is not supported on resources of kind \"deployments.apps\"",
            "reason": "MethodNotAllowed", "code": 405, "details": {"group": "apps", "kind": "deployments"}}),
    );
    check(
        &Status::generated_name_taken(("", "pods"), "x-abcde"),
        json!({"message": "pods \"x-abcde\" already exists, the server was not able to generate a unique name for the object",
            "reason": "AlreadyExists", "code": 409, "details": {"name": "x-abcde", "kind": "pods", "retryAfterSeconds": 1}}),
    );
}

#[test]
fn invalid_names_the_kind_and_lists_causes() {
    let mut errors = ErrorList::new();
    errors.invalid(&Path::new("spec").child("replicas"), &-1, "must be greater than or equal to 0");
    check(
        &Status::invalid("apps", "Deployment", "x", &errors),
        json!({"message": "Deployment.apps \"x\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            "reason": "Invalid", "code": 422, "details": {"name": "x", "group": "apps", "kind": "Deployment", "causes": [
                {"reason": "FieldValueInvalid", "message": "Invalid value: -1: must be greater than or equal to 0", "field": "spec.replicas"}]}}),
    );
}

#[test]
fn forbidden_names_user_verb_resource_and_namespace() {
    let denied = DeniedRequest {
        user: "u<1>",
        verb: "list",
        subresource: "",
        namespace: "ns",
        name: "",
        why: "no rule",
    };
    let text =
        |about: (&str, &str), denied: &DeniedRequest<'_>| Status::forbidden_access(about, denied).message;
    assert_eq!(
        text(("", "pods"), &denied),
        "pods is forbidden: User \"u&lt;1&gt;\" cannot list resource \"pods\" in API group \"\" in the namespace \"ns\": no rule"
    );
    let named =
        DeniedRequest { user: "u", verb: "get", name: "x", subresource: "scale", namespace: "", why: "" };
    assert_eq!(
        text(("apps", "deployments"), &named),
        "deployments.apps \"x\" is forbidden: User \"u\" cannot get resource \"deployments/scale\" in API group \"apps\" at the cluster scope"
    );
    assert_eq!(
        Status::forbidden_path("u", "get", "/x", "").message,
        "forbidden: User \"u\" cannot get path \"/x\""
    );
}

#[test]
fn future_revisions_time_out_with_their_cause() {
    check(
        &Status::too_large_resource_version(9, 5),
        json!({"message": "Timeout: Too large resource version: 9, current: 5", "reason": "Timeout", "code": 504,
            "details": {"retryAfterSeconds": 1, "causes": [
                {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}}),
    );
}

#[test]
fn unknown_reasons_decode_as_unknown() {
    let status: Status = serde_json::from_str(r#"{"kind":"Status","reason":"Novel"}"#).unwrap();
    assert_eq!((status.reason, status.status), (Reason::Unknown, Outcome::Failure));
}
