//! Tests of type-checking warnings for built-in and custom kinds.

use super::{CheckedKind, Checks, ExpressionWarning, ResourceName, Schemas, resources};
use crate::admission_expression::KindSchema;
use crate::limits::POLICY_WARNING_BYTES_MAX;
use crate::structural::Tree;
use crate::{kind, schema};
use serde_json::{Value, json};
use std::sync::Arc;

/// Schemas of the built-in kinds and of the custom kind `Lamp`.
struct Cluster(Arc<Tree>);

impl Cluster {
    fn new() -> Self {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "watts": {"type": "integer"}, "names": {"type": "array", "items": {"type": "string"}},
            "since": {"type": "string", "format": "date-time"}, "free": {"x-kubernetes-preserve-unknown-fields": true},
            "limit": {"x-kubernetes-int-or-string": true}, "namespace": {"type": "string"},
            "by-name": {"type": "object", "additionalProperties": {"type": "object", "properties": {"on": {"type": "boolean"}}}},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}}}});
        Self(Arc::new(Tree::compile(&schema).unwrap()))
    }
}

impl Schemas for Cluster {
    fn kind_of(&self, resource: ResourceName<'_>) -> Option<CheckedKind> {
        let ResourceName { group, version, resource } = resource;
        let kind = match resource {
            "lamps" => "Lamp",
            _ => kind::lookup(group, version, resource)?.kind,
        };
        let schema = self.schema_of(group, version, kind)?;
        let (group, version, kind) = (group.to_owned(), version.to_owned(), kind.to_owned());
        Some(CheckedKind { group, version, kind, schema })
    }

    fn schema_of(&self, group: &str, version: &str, kind: &str) -> Option<KindSchema> {
        match kind {
            "Lamp" => Some(KindSchema::Custom(self.0.clone())),
            _ => schema::of(group, version, kind).map(KindSchema::BuiltIn),
        }
    }
}

fn rule(groups: &[&str], versions: &[&str], resources: &[&str]) -> Value {
    json!({"apiGroups": groups, "apiVersions": versions, "resources": resources, "operations": ["*"]})
}

fn policy(rules: &[Value], expressions: &[&str]) -> Value {
    let validations: Vec<Value> = expressions.iter().map(|text| json!({"expression": text})).collect();
    json!({"spec": {"matchConstraints": {"resourceRules": rules}, "validations": validations}})
}

fn warnings(policy: &Value) -> Vec<ExpressionWarning> {
    let mut checks = Checks::new(policy, &Cluster::new());
    (0..checks.len()).flat_map(|index| checks.run(index)).collect()
}

/// The error of an expression for a kind, without its position; empty if it fits.
fn error(resource: (&str, &str, &str), expression: &str) -> Option<String> {
    let policy = policy(&[rule(&[resource.0], &[resource.1], &[resource.2])], &[expression]);
    let found = warnings(&policy).pop()?;
    let text = found.warning.split_once("ERROR: <input>:").unwrap().1;
    Some(text.lines().next().unwrap().split_once(": ").unwrap().1.to_owned())
}

#[test]
fn warnings_name_each_kind_with_its_error() {
    let workloads = rule(&["apps"], &["v1"], &["replicasets", "deployments"]);
    let mut policy = policy(&[workloads], &["object.replicas > 1", "object.spec.replicas > 1"]);
    policy["spec"]["validations"][1]["messageExpression"] = json!("object.spec.replicas + 'x'");
    let text = |kind: &str, error: &str| format!("apps/v1, Kind={kind}: ERROR: <input>:{error}\n");
    let both = |error: &str| format!("{}\n{}", text("Deployment", error), text("ReplicaSet", error));
    let expected = [
        (
            "spec.validations[0].expression",
            both("1:7: undefined field 'replicas'\n | object.replicas > 1\n | ......^"),
        ),
        (
            "spec.validations[1].messageExpression",
            both(
                "1:22: found no matching overload for '_+_' applied to '(int, string)'\n | object.spec.replicas + 'x'\n | .....................^",
            ),
        ),
    ];
    let expected = expected
        .map(|(field_ref, warning)| ExpressionWarning { field_ref: field_ref.to_owned(), warning })
        .to_vec();
    assert_eq!(warnings(&policy), expected);
}

#[test]
fn built_in_kinds_have_the_types_of_their_fields() {
    let pods = ("", "v1", "pods");
    for fits in [
        "object.spec.containers.all(c, c.image.startsWith('a') && c.ports.exists(p, p.containerPort == 80))",
        "object.metadata.namespace == 'a' && object.metadata.creationTimestamp > timestamp('2026-01-01T00:00:00Z')",
        "object.spec.containers[0].resources.limits['cpu'] == '1' || object.spec.containers[0].resources.limits['cpu'] == 1",
        "object.spec.containers[0].livenessProbe.httpGet.port == 8080",
        "object.metadata.labels.?app.orValue('') == oldObject.kind",
        "has(object.spec.nodeName) && request.operation == 'CREATE' && namespaceObject.metadata.name == 'a'",
        "authorizer.requestResource.check('get').allowed()",
    ] {
        assert_eq!(error(pods, fits), None, "{fits}");
    }
    for (wrong, expected) in [
        ("object.spec.containers.all(c, c.img == 'a')", "undefined field 'img'"),
        ("oldObject.spec.nodeNam == 'a'", "undefined field 'nodeNam'"),
        ("object.spec.priority == 'a'", "found no matching overload for '_==_' applied to '(int, string)'"),
        (
            "object.metadata.labels == 1",
            "found no matching overload for '_==_' applied to '(map(string, string), int)'",
        ),
        ("object.spec == 1", "found no matching overload for '_==_' applied to '(Pod.spec, int)'"),
    ] {
        assert_eq!(error(pods, wrong).as_deref(), Some(expected), "{wrong}");
    }
    assert_eq!(error(("", "v1", "secrets"), "object.data['a'] == b'x'"), None, "data is bytes");
}

#[test]
fn custom_kinds_have_the_types_of_their_schemas_and_whole_metadata() {
    let lamps = ("light.test", "v1", "lamps");
    for fits in [
        "object.spec.watts + 1 > 2 && object.spec.names.all(n, n.size() > 1)",
        "object.spec.since < timestamp('2026-01-01T00:00:00Z')",
        "object.spec.limit == 1 || object.spec.limit == '1%'",
        "object.spec.namespace == 'a' && object.spec.__namespace__ == 'a'",
        "object.spec.by__dash__name['a'].on && object.apiVersion == 'x'",
        "object.metadata.labels['a'] == 'b' && object.spec.pod.metadata.uid == 'a'",
    ] {
        assert_eq!(error(lamps, fits), None, "{fits}");
    }
    for (wrong, expected) in [
        ("object.spec.volts == 1", "undefined field 'volts'"),
        ("object.spec.free == 1", "undefined field 'free'"),
        ("object.spec.by__dash__name['a'].off", "undefined field 'off'"),
        ("object.spec.watts == 'a'", "found no matching overload for '_==_' applied to '(int, string)'"),
    ] {
        assert_eq!(error(lamps, wrong).as_deref(), Some(expected), "{wrong}");
    }
}

#[test]
fn parameters_and_variables_have_known_types() {
    let mut policy = policy(
        &[rule(&[""], &["v1"], &["configmaps"])],
        &[
            "params.spec.volts == 1",
            "variables.size == 'a'",
            "variables.meta.nothing == 1",
            "variables.bad == 1",
        ],
    );
    policy["spec"]["paramKind"] = json!({"apiVersion": "light.test/v1", "kind": "Lamp"});
    policy["spec"]["variables"] = json!([
        {"name": "size", "expression": "object.data.size()"}, {"name": "meta", "expression": "object.metadata"},
        {"name": "bad", "expression": "object.nothing"}]);
    let at = |policy: &Value| warnings(policy).into_iter().map(|one| one.field_ref).collect::<Vec<_>>();
    assert_eq!(at(&policy), ["spec.validations[0].expression", "spec.validations[1].expression"]);
    policy["spec"]["paramKind"] = json!({"apiVersion": "light.test/v1", "kind": "Unknown"});
    assert_eq!(at(&policy), ["spec.validations[1].expression"], "unknown parameters are of any type");
    policy["spec"]["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    policy["spec"]["validations"] = json!([{"expression": "params.data == object.data && params.dat == 1"}]);
    assert!(
        warnings(&policy)[0].warning.contains("undefined field 'dat'"),
        "parameters of the kind of the objects"
    );
}

#[test]
fn wildcards_subresources_and_unknown_resources_are_not_type_checked() {
    for rule in [
        rule(&["*"], &["v1"], &["pods"]),
        rule(&[""], &["*"], &["pods"]),
        rule(&[""], &["v1"], &["*", "*/*", "pods/*", "pods/status"]),
        rule(&[""], &["v7"], &["pods"]),
        rule(&["none.test"], &["v1"], &["things"]),
    ] {
        assert_eq!(warnings(&policy(std::slice::from_ref(&rule), &["object.nothing == 1"])), [], "{rule}");
    }
    let mixed = [rule(&["*"], &["v1"], &["pods"]), rule(&["", "apps"], &["v1"], &["pods", "*"])];
    let mixed = policy(&mixed, &["object.nothing == 1"]);
    assert_eq!(resources(&mixed).len(), 2, "of each group");
    let found = warnings(&mixed);
    assert!(found[0].warning.starts_with("/v1, Kind=Pod: ERROR: "), "{found:?}");
    assert_eq!(found[0].warning.matches("Kind=").count(), 1);
}

#[test]
fn at_most_ten_kinds_are_type_checked() {
    let core = [
        "configmaps",
        "endpoints",
        "events",
        "limitranges",
        "namespaces",
        "nodes",
        "pods",
        "secrets",
        "services",
    ];
    let rules =
        [rule(&[""], &["v1"], &core), rule(&["apps"], &["v1"], &["deployments", "replicasets", "pods"])];
    let found = warnings(&policy(&rules, &["object.nothing == 1"]));
    assert_eq!(found[0].warning.matches("Kind=").count(), 10);
}

#[test]
fn long_warnings_are_truncated() {
    let long = format!("object.nothing == '{}'", "ä".repeat(POLICY_WARNING_BYTES_MAX / 4));
    let found = warnings(&policy(&[rule(&[""], &["v1"], &["pods"])], &[&long, &long, &long]));
    let bytes: usize = found.iter().map(|one| one.warning.len()).sum();
    assert_eq!(found.len(), 2);
    assert!(bytes > POLICY_WARNING_BYTES_MAX - 4 && bytes <= POLICY_WARNING_BYTES_MAX, "{bytes}");
}
