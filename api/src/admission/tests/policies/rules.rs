//! Tests of policy rules that the recordings do not cover.

use super::{Call, Server};
use crate::admission::attributes::{Attributes, Operation};
use crate::admission::policy::validating::ValidatingPolicies;
use crate::admission::policy::{Outcome, PolicyRequest};
use crate::admission::selection::ClusterFacts;
use crate::admission::tests::request;
use crate::kind::lookup;
use crate::meta;
use serde_json::{Value, json};

/// A server with one validating policy of this spec for ConfigMaps, and one binding.
fn server(spec: &Value, binding: &Value) -> Server {
    let rules =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}]);
    let constraints = json!({"resourceRules": rules, "namespaceSelector": {}, "objectSelector": {}, "matchPolicy": "Equivalent"});
    let mut policy = json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": constraints, "failurePolicy": "Fail"}});
    merge_into(&mut policy["spec"], spec);
    let mut bound =
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    merge_into(&mut bound["spec"], binding);
    let kinds = if spec.get("mutations").is_some() { "mutating" } else { "validating" };
    let mut server = Server::default();
    server.namespaces.insert("default".to_owned(), json!({"metadata": {"name": "default"}}));
    server.configuration.insert((format!("{kinds}admissionpolicies"), "p".to_owned()), policy);
    server.configuration.insert((format!("{kinds}admissionpolicybindings"), "b".to_owned()), bound);
    server
}

fn merge_into(object: &mut Value, members: &Value) {
    for (name, value) in members.as_object().unwrap() {
        object[name] = value.clone();
    }
}

fn create(server: &Server, object: Value) -> (Option<Value>, Outcome) {
    server.admit(Call {
        operation: Operation::Create,
        row: lookup("", "v1", "configmaps").unwrap(),
        subresource: "",
        namespace: "default",
        name: meta::name(&object),
        dry_run: false,
        object: Some(object.clone()),
        old_object: None,
    })
}

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "data": {"k": "v"}})
}

fn denial(outcome: Outcome) -> String {
    outcome.denial.map_or_else(String::new, |status| status.message)
}

#[test]
fn unusable_bindings_deny_or_are_ignored() {
    let denied = "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' ";
    let spec = |kind: Value| json!({"validations": [{"expression": "true"}], "paramKind": kind});
    let (configmap, node) =
        (json!({"apiVersion": "v1", "kind": "ConfigMap"}), json!({"apiVersion": "v1", "kind": "Node"}));
    let unknown = json!({"apiVersion": "x.dev/v1", "kind": "X"});
    let reference = |reference: Value| json!({"paramRef": reference});
    let cases = [
        (
            &unknown,
            json!({}),
            "denied request: failed to configure policy: failed to find resource referenced by paramKind: 'x.dev/v1, Kind=X'",
        ),
        (
            &configmap,
            reference(json!({"name": "z", "parameterNotFoundAction": "Deny"})),
            "with binding 'b' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
        ),
        (&configmap, reference(json!({"name": "z", "parameterNotFoundAction": "Allow"})), ""),
        (
            &configmap,
            reference(json!({"selector": {}, "parameterNotFoundAction": "Deny"})),
            "with binding 'b' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
        ),
        (
            &node,
            reference(json!({"name": "z", "namespace": "n", "parameterNotFoundAction": "Allow"})),
            "with binding 'b' denied request: failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`",
        ),
        (&configmap, json!({}), ""),
    ];
    for (kind, binding, expected) in cases {
        let (_, outcome) = create(&server(&spec(kind.clone()), &binding), config_map());
        let expected = if expected.is_empty() { String::new() } else { format!("{denied}{expected}") };
        assert_eq!(denial(outcome), expected);
        let mut ignoring = spec(kind.clone());
        ignoring["failurePolicy"] = "Ignore".into();
        let (_, outcome) = create(&server(&ignoring, &binding), config_map());
        assert_eq!(denial(outcome), "", "failures are ignored");
    }
}

#[test]
fn audit_annotations_are_joined_and_truncated() {
    let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "auditAnnotations": [
        {"key": "word", "valueExpression": "string(params.data.word)"}, {"key": "none", "valueExpression": "' '"}, {"key": "nil", "valueExpression": "null"}],
        "validations": [{"expression": "false"}]});
    let binding = json!({"paramRef": {"selector": {}, "parameterNotFoundAction": "Deny"}, "validationActions": ["Audit"]});
    let mut server = server(&spec, &binding);
    for (name, word) in [("x", "one"), ("y", "two"), ("z", "one")] {
        let key = ("configmaps".to_owned(), "default".to_owned(), name.to_owned());
        server.objects.insert(key, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"word": word}}));
    }
    let (_, outcome) = create(&server, config_map());
    assert_eq!(denial(outcome.clone()), "");
    let annotations: Vec<(&str, &str)> =
        outcome.audit_annotations.iter().map(|annotation| (&*annotation.key, &*annotation.value)).collect();
    let failure = r#"[{"binding":"b","expressionIndex":0,"message":"failed expression: false","policy":"p","validationActions":["Audit"]}]"#;
    assert_eq!(
        annotations,
        [("validation.policy.admission.k8s.io/validation_failure", failure), ("p/word", "one, two")]
    );
    let long = json!({"auditAnnotations": [{"key": "long", "valueExpression": "string(object.data.k)"}, {"key": "bad", "valueExpression": "string(object.data.zork)"}]});
    let mut object = config_map();
    object["data"]["k"] = "é".repeat(10_000).into();
    let (_, outcome) = create(&self::server(&long, &json!({})), object);
    assert_eq!(outcome.audit_annotations[0].value.len(), 10 * 1024);
    assert_eq!(
        denial(outcome),
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: expression 'string(object.data.zork)' resulted in error: no such key: zork"
    );
}

#[test]
fn message_expressions_count_toward_the_budget_of_valid_requests() {
    let ten = "[1,2,3,4,5,6,7,8,9,10]";
    let costly = format!(
        "{ten}.all(a, {ten}.all(b, {ten}.all(c, {ten}.all(d, {ten}.all(e, a + b + c + d + e > 0)))))"
    );
    let many: Vec<Value> = (0..11)
        .map(|_| json!({"expression": "true", "messageExpression": format!("{costly} ? 'a' : 'b'")}))
        .collect();
    let (_, outcome) = create(&server(&json!({"validations": many[..5]}), &json!({})), config_map());
    assert_eq!(denial(outcome), "");
    let (_, outcome) =
        create(&server(&json!({"validations": vec![many[0].clone(); 40]}), &json!({})), config_map());
    assert_eq!(
        denial(outcome),
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed messageExpression: validation failed due to running out of cost budget, no further validation rules will be run"
    );
    let spent: Vec<Value> = vec![json!({"expression": costly}); 40];
    let (_, outcome) = create(&server(&json!({"validations": spent}), &json!({})), config_map());
    assert!(denial(outcome).ends_with(
        "validation failed due to running out of cost budget, no further validation rules will be run"
    ));
}

#[test]
fn false_match_conditions_take_precedence_over_failures() {
    let of = |conditions: &[&str], policy: &str| {
        let conditions: Vec<Value> =
            conditions.iter().map(|expression| json!({"name": "c", "expression": expression})).collect();
        let spec = json!({"matchConditions": conditions, "validations": [{"expression": "false", "message": "asked"}], "failurePolicy": policy});
        let (_, outcome) = create(&server(&spec, &json!({})), config_map());
        let prefix =
            "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ";
        denial(outcome).strip_prefix(prefix).unwrap_or_default().to_owned()
    };
    let (broken, other) = ("object.data.zork == ''", "object.data.zark == ''");
    assert_eq!(of(&["true"], "Fail"), "asked");
    assert_eq!(of(&["true", "false"], "Fail"), "");
    assert_eq!(of(&[broken, "false"], "Fail"), "");
    assert_eq!(
        of(&[broken, "true", broken], "Fail"),
        format!("expression '{broken}' resulted in error: no such key: zork")
    );
    assert_eq!(
        of(&[broken, other], "Fail"),
        format!(
            "[expression '{broken}' resulted in error: no such key: zork, expression '{other}' resulted in error: no such key: zark]"
        )
    );
    assert_eq!(of(&[broken], "Ignore"), "");
    assert_eq!(of(&["namespaceObject == null"], "Fail"), "asked", "conditions see no namespace");
}

#[test]
fn mutation_failures_have_the_messages_of_kubernetes() {
    let apply = |expression: &str| json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
    let patch = |expression: &str| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
    let denied = "policy 'p' with binding 'b' denied request: ";
    let cases = [
        (
            apply("Object{metadata: Object.spec{labels: {'a': 'b'}}}"),
            format!(
                "{denied}type mismatch: unexpected type name \"Object.spec\", expected \"Object.metadata\", which matches field name path from root Object type"
            ),
        ),
        (
            apply(
                "Object{metadata: Object.metadata{ownerReferences: [Object.metadata.ownerReferences{uid: 'u', name: 'n', kind: 'K', apiVersion: 'v1'}]}}",
            ),
            format!(
                "{denied}error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .metadata.ownerReferences[0]"
            ),
        ),
        (
            apply("Object{foo: 1}"),
            format!(
                "{denied}error applying patch: failed to convert patch object to typed object: .foo: field not declared in schema"
            ),
        ),
        (patch("[JSONPatch{op: 'zap', path: '/data'}]"), format!("{denied}JSON Patch: Unexpected kind: zap")),
        (
            patch("[JSONPatch{op: 'remove', path: '/data/zz'}]"),
            format!(
                "{denied}JSON Patch: error in remove for path: '/data/zz': Unable to remove nonexistent key: zz: missing value"
            ),
        ),
        (
            patch("[JSONPatch{op: 'add', path: '/foo', value: 1}]"),
            "Internal error occurred: strict decoding error: unknown field \"foo\"".to_owned(),
        ),
        (
            patch(
                "[JSONPatch{op: 'test', path: '/data/k', value: 'other'}, JSONPatch{op: 'add', path: '/data/x', value: '1'}]",
            ),
            String::new(),
        ),
    ];
    for (mutation, expected) in cases {
        let spec = json!({"mutations": [mutation]});
        let (object, outcome) = create(&server(&spec, &json!({})), config_map());
        assert_eq!(object.unwrap(), config_map());
        assert_eq!(denial(outcome), expected);
    }
}

#[test]
fn mutation_failures_are_reported_together_and_deletions_are_not_mutated() {
    let patch = |expression: &str| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
    let spec = json!({"mutations": [patch("[JSONPatch{op: 'a', path: '/'}]"), patch("[JSONPatch{op: 'add', path: '/data/x', value: 'y'}]"), patch("[JSONPatch{op: 'b', path: '/'}]")]});
    let failing = server(&spec, &json!({}));
    let (_, outcome) = create(&failing, config_map());
    let status = outcome.denial.unwrap();
    let causes: Vec<String> =
        status.details.as_ref().unwrap().causes.iter().map(|cause| cause.message.clone()).collect();
    assert_eq!((status.code, status.reason.as_str()), (403, "Invalid"));
    assert_eq!(
        causes,
        ["a", "b"].map(|op| format!(
            "policy 'p' with binding 'b' denied request: JSON Patch: Unexpected kind: {op}"
        ))
    );
    let mut ignoring = spec;
    ignoring["failurePolicy"] = "Ignore".into();
    let (object, outcome) = create(&server(&ignoring, &json!({})), config_map());
    assert_eq!((denial(outcome), object.unwrap()["data"]["x"].clone()), (String::new(), json!("y")));
    let deletion = Call {
        operation: Operation::Delete,
        row: lookup("", "v1", "configmaps").unwrap(),
        subresource: "",
        namespace: "default",
        name: "a",
        dry_run: false,
        object: None,
        old_object: Some(config_map()),
    };
    let (object, outcome) = failing.admit(deletion);
    assert!(object.is_none() && outcome.denial.is_none());
}

#[test]
fn refusals_name_the_object_as_far_as_known() {
    let attributes = request(None);
    let server = server(&json!({"validations": [{"expression": "false"}]}), &json!({}));
    let policies = ValidatingPolicies::new(
        server.of("validatingadmissionpolicies"),
        server.of("validatingadmissionpolicybindings"),
    );
    let namespace = &server.namespaces["default"];
    let name = |name: &'static str, object: Option<&Value>| {
        let attributes = Attributes { name, object, ..attributes };
        let facts = ClusterFacts { namespace: Some(namespace), equivalents: &[] };
        let outcome = policies.admit(&PolicyRequest {
            attributes,
            facts,
            cluster: &server,
            authorizer: None,
            checks: &(),
        });
        outcome.denial.unwrap().details.unwrap().name
    };
    assert_eq!(name("a", None), "a");
    assert_eq!(name("", None), "Unknown");
    assert_eq!(name("", Some(&json!({"metadata": {"generateName": "g-"}}))), "g-");
    assert_eq!(name("", Some(&json!({"kind": "PodExecOptions"}))), "Unknown/errorGettingName");
    assert!(
        policies.has_candidates(Operation::Create, "configmaps")
            && !policies.has_candidates(Operation::Create, "pods")
    );
}
