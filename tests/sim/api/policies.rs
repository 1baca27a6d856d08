//! Admission policies over REST: stored policies apply to requests from the revision of their binding on.
//! Expressions and messages of verdicts have their tests in the crate `api`.

use kstore_tests::{Cluster, Reply, Setup, simulate};
use serde_json::{Value, json};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn call(cluster: &Cluster, method: &str, path: &str, body: &Value) -> Reply {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    cluster.rest().call(method, path, body).await
}

async fn make(cluster: &Cluster, path: &str, object: &Value) -> Value {
    let made = call(cluster, "POST", path, object).await;
    assert_eq!(made.code, 201, "{}", made.json());
    made.json()
}

fn maps_rule() -> Value {
    json!({"resourceRules": [
        {"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]})
}

fn policy(kind: &str, name: &str, spec: Value) -> Value {
    let mut policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name}, "spec": spec});
    if policy["spec"]["matchConstraints"].is_null() && !kind.ends_with("Binding") {
        policy["spec"]["matchConstraints"] = maps_rule();
    }
    policy
}

fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

async fn validate(cluster: &Cluster, spec: Value, binding: Value) {
    make(
        cluster,
        &format!("{GROUP}/validatingadmissionpolicies"),
        &policy("ValidatingAdmissionPolicy", "p", spec),
    )
    .await;
    let path = format!("{GROUP}/validatingadmissionpolicybindings");
    make(cluster, &path, &policy("ValidatingAdmissionPolicyBinding", "b", binding)).await;
}

#[test]
fn a_validating_policy_denies_requests_that_fail_its_expression() {
    simulate(Setup::api_alone(), async |cluster| {
        let spec = json!({"validations": [{"expression": "size(object.data) <= variables.most",
            "messageExpression": "'at most ' + string(variables.most) + ' keys'"}],
            "variables": [{"name": "most", "expression": "1 + 1"}]});
        validate(cluster, spec, json!({"policyName": "p", "validationActions": ["Deny"]})).await;
        make(cluster, MAPS, &map("two", json!({"a": "", "b": ""}))).await;
        let refused = call(cluster, "POST", MAPS, &map("three", json!({"a": "", "b": "", "c": ""}))).await;
        assert_eq!(refused.code, 422);
        let text = "configmaps \"three\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: at most 2 keys";
        assert_eq!(refused.json()["message"], text);
        let patch = json!({"data": {"c": ""}}).to_string();
        let path = format!("{MAPS}/two");
        let refused = cluster.rest().call_as("PATCH", &path, "application/merge-patch+json", patch).await;
        assert_eq!(refused.code, 422, "{}", refused.json());
    });
}

#[test]
fn a_policy_reads_parameters_namespaces_and_the_authorizer() {
    simulate(Setup::api_alone(), async |cluster| {
        let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [
            {"expression": "object.metadata.name == params.metadata.name || object.data.x == params.data.x",
                "message": "x differs"},
            {"expression": "namespaceObject.metadata.name == 'default'"},
            {"expression": "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()"}]});
        let settings = map("settings", json!({"x": "1"}));
        make(cluster, MAPS, &settings).await;
        let reference = json!({"name": "settings", "parameterNotFoundAction": "Deny"});
        validate(
            cluster,
            spec,
            json!({"policyName": "p", "validationActions": ["Deny"], "paramRef": reference}),
        )
        .await;
        make(cluster, MAPS, &map("same", json!({"x": "1"}))).await;
        let refused = call(cluster, "POST", MAPS, &map("other", json!({"x": "2"}))).await;
        assert_eq!(refused.code, 422, "{}", refused.json());
        assert!(refused.json()["message"].as_str().unwrap().ends_with("x differs"));
    });
}

#[test]
fn a_policy_with_the_action_warn_admits_the_request() {
    simulate(Setup::api_alone(), async |cluster| {
        let spec = json!({"validations": [{"expression": "false", "message": "think twice"}]});
        validate(cluster, spec, json!({"policyName": "p", "validationActions": ["Warn"]})).await;
        let made = call(cluster, "POST", MAPS, &map("m", json!({}))).await;
        assert_eq!(made.code, 201);
        let warned = made.headers["warning"].to_str().unwrap().to_owned();
        let text = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': think twice";
        assert!(warned.contains(text), "{warned}");
    });
}

#[test]
fn a_mutating_policy_changes_objects_by_configuration_and_by_patch() {
    simulate(Setup::api_alone(), async |cluster| {
        let spec = json!({"reinvocationPolicy": "Never", "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration":
                {"expression": "Object{metadata: Object.metadata{labels: {'by': 'policy'}}}"}},
            {"patchType": "JSONPatch", "jsonPatch":
                {"expression": "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a/b'), value: object.metadata.labels['by']}]"}}]});
        make(
            cluster,
            &format!("{GROUP}/mutatingadmissionpolicies"),
            &policy("MutatingAdmissionPolicy", "m", spec),
        )
        .await;
        let binding = policy("MutatingAdmissionPolicyBinding", "m", json!({"policyName": "m"}));
        make(cluster, &format!("{GROUP}/mutatingadmissionpolicybindings"), &binding).await;
        let refused = call(cluster, "POST", MAPS, &map("m", json!({"k": "v"}))).await;
        assert_eq!(refused.code, 422, "a ConfigMap may not have the key a/b: {}", refused.json());
        let path = format!("{GROUP}/mutatingadmissionpolicies/m");
        let patch = json!([{"op": "replace", "path": "/spec/mutations/1/jsonPatch/expression",
            "value": "[JSONPatch{op: 'add', path: '/data/a', value: object.metadata.labels['by']}]"}]);
        let changed =
            cluster.rest().call_as("PATCH", &path, "application/json-patch+json", patch.to_string()).await;
        assert_eq!(changed.code, 200, "{}", changed.json());
        let made = make(cluster, MAPS, &map("m", json!({"k": "v"}))).await;
        assert_eq!(made["metadata"]["labels"], json!({"by": "policy"}));
        assert_eq!(made["data"], json!({"k": "v", "a": "policy"}));
    });
}

#[test]
fn an_expression_that_does_not_compile_is_refused_with_its_position() {
    simulate(Setup::api_alone(), async |cluster| {
        let spec = json!({"validations": [{"expression": "object.a =="}]});
        let path = format!("{GROUP}/validatingadmissionpolicies");
        let refused = call(cluster, "POST", &path, &policy("ValidatingAdmissionPolicy", "p", spec)).await;
        assert_eq!(refused.code, 422);
        let text = refused.json()["message"].as_str().unwrap().to_owned();
        assert!(
            text.contains("spec.validations[0].expression: Invalid value")
                && text.contains("compilation failed: ERROR: <input>:1:12"),
            "{text}"
        );
    });
}
