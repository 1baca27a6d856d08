//! Invalid requests get the answers of Kubernetes, and nothing of them is executed.

use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Reply, Setup, manifests, simulate};
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Method, path, content type and body of a request; code, reason and a part of the message of its answer.
type Case = (&'static str, String, &'static str, String, u16, &'static str, &'static str);

fn config_map(metadata: Value) -> String {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {} }).to_string()
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn bodies() -> Vec<Case> {
    let create = |content_type, body: String, code, reason, message| -> Case {
        ("POST", CONFIG_MAPS.into(), content_type, body, code, reason, message)
    };
    vec![
        create(JSON, "{".into(), 400, "BadRequest", "couldn't get version/kind"),
        create(JSON, String::new(), 400, "BadRequest", ""),
        create(JSON, "[]".into(), 400, "BadRequest", "ConfigMap"),
        create(YAML, "a: b: c".into(), 400, "BadRequest", "yaml"),
        create(YAML, "metadata: {name: ok".into(), 400, "BadRequest", "yaml"),
        create("application/vnd.kubernetes.protobuf", "k8s\0\u{1}".into(), 400, "BadRequest", "proto"),
        create("text/plain", "x".into(), 415, "UnsupportedMediaType", "application/json"),
        create(
            JSON,
            r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}"#.into(),
            400,
            "BadRequest",
            "Secret in version \"v1\" cannot be handled as a ConfigMap",
        ),
        create(
            JSON,
            r#"{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"a"}}"#.into(),
            400,
            "BadRequest",
            "the API version in the data (v2) does not match the expected API version (v1)",
        ),
        create(JSON, r#"{"metadata":{"name":"a"},"data":{"n":1}}"#.into(), 400, "BadRequest", "data"),
        create(
            JSON,
            config_map(json!({ "name": "Not Good" })),
            422,
            "Invalid",
            "metadata.name: Invalid value: \"Not Good\"",
        ),
        create(JSON, config_map(json!({ "name": "a".repeat(254) })), 422, "Invalid", "metadata.name"),
        create(JSON, config_map(json!({})), 422, "Invalid", "name or generateName is required"),
        create(
            JSON,
            config_map(json!({ "name": "a", "labels": { "-": "b" } })),
            422,
            "Invalid",
            "metadata.labels",
        ),
        create(
            JSON,
            config_map(json!({ "name": "a", "resourceVersion": "1" })),
            500,
            "",
            "resourceVersion should not be set",
        ),
        create(
            JSON,
            config_map(json!({ "name": "a", "namespace": "other" })),
            400,
            "BadRequest",
            "does not match the namespace",
        ),
        create(JSON, "x".repeat(3 * 1024 * 1024 + 1), 413, "RequestEntityTooLarge", "limit is 3145728"),
        (
            "POST",
            format!("{CONFIG_MAPS}?fieldValidation=Strict"),
            JSON,
            r#"{"metadata":{"name":"a"},"dada":{},"data":{"a":"1","a":"2"}}"#.into(),
            400,
            "BadRequest",
            "unknown field \"dada\"",
        ),
        (
            "POST",
            format!("{CONFIG_MAPS}?fieldValidation=Maybe"),
            JSON,
            config_map(json!({ "name": "a" })),
            422,
            "Invalid",
            "fieldValidation",
        ),
        (
            "POST",
            format!("{CONFIG_MAPS}?dryRun=Some"),
            JSON,
            config_map(json!({ "name": "a" })),
            422,
            "Invalid",
            "dryRun",
        ),
        (
            "POST",
            "/api/v1/namespaces/none/configmaps".into(),
            JSON,
            config_map(json!({ "name": "a" })),
            404,
            "NotFound",
            "namespaces \"none\" not found",
        ),
        (
            "POST",
            CONFIG_MAPS.into(),
            JSON,
            config_map(json!({ "name": "there" })),
            409,
            "AlreadyExists",
            "configmaps \"there\" already exists",
        ),
        (
            "POST",
            DEPLOYMENTS.into(),
            JSON,
            r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":-1}}"#
                .into(),
            422,
            "Invalid",
            "spec.replicas",
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "one table")]
fn paths() -> Vec<Case> {
    let there = format!("{CONFIG_MAPS}/there");
    let get = |path: &str, code, reason, message| -> Case {
        ("GET", path.into(), JSON, String::new(), code, reason, message)
    };
    vec![
        get("/api/v1/dogs", 404, "NotFound", "the server could not find the requested resource"),
        get("/apis/apps/v9/deployments", 404, "NotFound", "the server could not find the requested resource"),
        get(&format!("{CONFIG_MAPS}/none"), 404, "NotFound", "configmaps \"none\" not found"),
        get(&format!("{DEPLOYMENTS}/none"), 404, "NotFound", "deployments.apps \"none\" not found"),
        get(&format!("{there}/none"), 404, "NotFound", ""),
        get(
            &format!("{CONFIG_MAPS}?labelSelector=a%3D%3D%3Db"),
            400,
            "BadRequest",
            "unable to parse requirement: found '='",
        ),
        get(
            &format!("{CONFIG_MAPS}?fieldSelector=data.a%3Db"),
            400,
            "BadRequest",
            "\"data.a\" is not a known field selector",
        ),
        get(&format!("{CONFIG_MAPS}?resourceVersion=new"), 400, "BadRequest", "resource version"),
        get(&format!("{CONFIG_MAPS}?resourceVersionMatch=Exact"), 422, "Invalid", "resourceVersionMatch"),
        get(&format!("{CONFIG_MAPS}?continue=x&limit=1"), 400, "BadRequest", "continue"),
        get(
            &format!("{CONFIG_MAPS}?limit=few"),
            400,
            "BadRequest",
            "strconv.ParseInt: parsing \"few\": invalid syntax",
        ),
        get(&format!("{CONFIG_MAPS}?resourceVersion=99999999"), 504, "Timeout", "Too large resource version"),
        ("PUT", CONFIG_MAPS.into(), JSON, "{}".into(), 405, "MethodNotAllowed", ""),
        ("POST", there.clone(), JSON, "{}".into(), 405, "MethodNotAllowed", ""),
        (
            "PATCH",
            there.clone(),
            JSON,
            "{}".into(),
            415,
            "UnsupportedMediaType",
            "application/merge-patch+json",
        ),
        (
            "DELETE",
            format!("{CONFIG_MAPS}/none"),
            JSON,
            String::new(),
            404,
            "NotFound",
            "configmaps \"none\" not found",
        ),
        (
            "DELETE",
            there.clone(),
            JSON,
            r#"{"preconditions":{"uid":"another"}}"#.into(),
            409,
            "Conflict",
            "the UID in the precondition (another) does not match the UID in record",
        ),
        ("DELETE", there, JSON, r#"{"propagationPolicy":"Sideways"}"#.into(), 422, "Invalid", "Sideways"),
        (
            "DELETE",
            "/api/v1/namespaces/default".into(),
            JSON,
            String::new(),
            403,
            "Forbidden",
            "may not be deleted",
        ),
    ]
}

fn changes(stale: &Value) -> Vec<Case> {
    let there = format!("{CONFIG_MAPS}/there");
    let patch = |content_type, body: &str, code, reason, message| -> Case {
        ("PATCH", there.clone(), content_type, body.into(), code, reason, message)
    };
    let put = |body: String, code, reason, message| -> Case {
        ("PUT", there.clone(), JSON, body, code, reason, message)
    };
    vec![
        put(
            stale.to_string(),
            409,
            "Conflict",
            "Operation cannot be fulfilled on configmaps \"there\": the object has been modified; please apply your changes to the latest version and try again",
        ),
        put(
            config_map(json!({ "name": "else" })),
            400,
            "BadRequest",
            "does not match the name on the URL (there)",
        ),
        put(config_map(json!({ "name": "there", "uid": "another" })), 409, "Conflict", "UID"),
        put(config_map(json!({ "name": "there", "resourceVersion": "new" })), 400, "BadRequest", "resource"),
        patch(MERGE, "{", 400, "BadRequest", ""),
        patch(MERGE, "[]", 400, "BadRequest", ""),
        patch(
            MERGE,
            r#"{"metadata":{"resourceVersion":"1"}}"#,
            409,
            "Conflict",
            "the object has been modified",
        ),
        patch(
            MERGE,
            r#"{"metadata":{"name":"else"}}"#,
            400,
            "BadRequest",
            "does not match the name on the URL (there)",
        ),
        patch(JSON_PATCH, r#"{"op":"add"}"#, 400, "BadRequest", ""),
        patch(JSON_PATCH, r#"[{"op":"test","path":"/data/value","value":"9"}]"#, 422, "Invalid", ""),
        patch(JSON_PATCH, r#"[{"op":"remove","path":"/data/none"}]"#, 422, "Invalid", ""),
        patch(STRATEGIC, r#"{"data":{"$patch":"sideways"}}"#, 500, "", ""),
    ]
}

async fn send(cluster: &Cluster, case: &Case) -> Reply {
    let (method, path, content_type, body, ..) = case;
    cluster.rest().call_as(method, path, content_type, body.clone()).await
}

fn mismatch(case: &Case, reply: &Reply) -> Option<String> {
    let (method, path, _, body, code, reason, message) = case;
    let is_status = reply.text("/kind") == "Status"
        && reply.text("/status") == "Failure"
        && reply.json()["code"] == reply.code;
    let right = reply.code == *code
        && reply.text("/reason") == *reason
        && reply.text("/message").contains(message)
        && is_status;
    let shown: String = body.chars().take(120).collect();
    let answer: String = String::from_utf8_lossy(&reply.body).chars().take(400).collect();
    (!right).then(|| {
        format!(
            "{method} {path} {shown}\n    wanted {code} {reason} … {message}\n    got {} {answer}",
            reply.code
        )
    })
}

#[test]
fn every_invalid_request_gets_the_answer_of_kubernetes() {
    simulate(Setup::api_alone(), async |cluster| {
        let stale = cluster.create(manifests::config_map("there", "1")).await;
        let there = cluster.merge("configmaps", "there", json!({ "data": { "value": "2" } })).await;
        let revision = cluster.store().revision();
        let mut wrong = Vec::new();
        for case in [bodies(), paths(), changes(&stale)].into_iter().flatten() {
            let reply = send(cluster, &case).await;
            wrong.extend(mismatch(&case, &reply));
        }
        assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
        assert_eq!(cluster.store().revision(), revision, "nothing was written");
        assert_eq!(cluster.get("configmaps", "default", "there").await, Some(there));
    });
}

#[test]
fn unauthorized_users_get_403_without_details() {
    simulate(Setup::api_alone(), async |cluster| {
        let jane = UserInfo::new("jane", ["system:authenticated"]);
        let reply = cluster.rest_as(jane).call("GET", &format!("{CONFIG_MAPS}/none"), "").await;
        assert_eq!(reply.code, 403);
        let message = "configmaps \"none\" is forbidden: User \"jane\" cannot get resource \"configmaps\" in API group \"\" in the namespace \"default\"";
        assert_eq!(reply.text("/message"), message);
    });
}

#[test]
fn unknown_fields_are_dropped_with_a_warning_unless_they_are_refused() {
    simulate(Setup::api_alone(), async |cluster| {
        let body = r#"{"metadata":{"name":"a"},"dada":{},"data":{"a":"1"}}"#;
        let reply = cluster.rest().call("POST", &format!("{CONFIG_MAPS}?fieldValidation=Warn"), body).await;
        assert_eq!((reply.code, reply.json().get("dada")), (201, None));
        let warning = reply.headers["warning"].to_str().unwrap();
        assert_eq!(warning, "299 - \"unknown field \\\"dada\\\"\"");
        let quiet =
            cluster.rest().call("PUT", &format!("{CONFIG_MAPS}/a?fieldValidation=Ignore"), body).await;
        assert_eq!((quiet.code, quiet.headers.get("warning")), (200, None));
    });
}
