//! Table tests of validation: `create.yaml` and `update.yaml`. The texts are those of 1.36, with which kstore was compared; the default
//! version must judge the same members.

mod cases;
mod pointers;

use crate::kind::{every, known, known_in};
use crate::resource::Resource;
use crate::version::Minor;
use crate::{defaults, object, strategy};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

#[derive(Deserialize)]
struct Create {
    name: String,
    object: Value,
    /// Expected errors as `path: body`, in order; a trailing `…` stands for the rest of a long text.
    #[serde(default)]
    errors: Vec<String>,
}

#[derive(Deserialize)]
struct Update {
    name: String,
    old: Value,
    /// Merge patch for `old` that makes the new object.
    change: Value,
    #[serde(default)]
    errors: Vec<String>,
}

/// The row of an object in a version, or in the default one if that version does not have the kind.
pub(super) fn row_of(minor: Minor, object: &Value) -> Option<&'static Resource> {
    let (api_version, kind) = (object::api_version(object), object::kind(object));
    known_in(minor, api_version, kind).or_else(|| known(api_version, kind))
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn complete(minor: Minor, object: &mut Value) -> &'static Resource {
    let row = row_of(minor, object).expect("a kind of the table");
    if row.namespaced && object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = "ns".into();
    }
    defaults::apply(row, object);
    row
}

/// Readable difference between actual and expected errors.
fn difference(name: &str, got: &[String], want: &[String]) -> Option<String> {
    let same = got.len() == want.len()
        && got.iter().zip(want).all(|(got, want)| match want.strip_suffix('…') {
            Some(start) => got.starts_with(start),
            None => got == want,
        });
    (!same).then(|| format!("{name}\n got: {got:#?}\nwant: {want:#?}"))
}

/// Cases in which the default version refuses other members than 1.36.
const OTHERWISE: [&str; 1] = ["an autoscaler without a bound"];

/// Readable difference of a case: between the errors of 1.36 and the expected ones, or between the members that are wrong to 1.36 and to
/// the default version, whose texts may be those of generated validation.
pub(super) fn judged(name: &str, want: &[String], judge: impl Fn(Minor) -> Vec<String>) -> Option<String> {
    let (compared, default) = (judge(Minor::V36), judge(Minor::DEFAULT));
    let members = |errors: &[String]| -> BTreeSet<String> {
        errors.iter().filter_map(|error| Some(error.split_once(": ")?.0.to_owned())).collect()
    };
    difference(name, &compared, want).or_else(|| {
        let is_same = members(&compared) == members(&default) || OTHERWISE.contains(&name);
        (!is_same).then(|| format!("{name}\n 1.36: {compared:#?}\n{}: {default:#?}", Minor::DEFAULT))
    })
}

#[test]
fn create_errors_match_kubernetes() {
    let cases: Vec<Create> = serde_yaml_ng::from_str(include_str!("../create.yaml")).unwrap();
    let wrong = cases.iter().filter_map(|case| {
        judged(&case.name, &case.errors, |minor| {
            let mut object = case.object.clone();
            let row = complete(minor, &mut object);
            strategy::prepare_create(row, &mut object);
            super::create(row, &object).iter().map(ToString::to_string).collect()
        })
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn update_errors_match_kubernetes() {
    let cases: Vec<Update> = serde_yaml_ng::from_str(include_str!("../update.yaml")).unwrap();
    let wrong = cases.iter().filter_map(|case| {
        judged(&case.name, &case.errors, |minor| {
            let (mut new, mut old) = (case.old.clone(), case.old.clone());
            merge(&mut new, &case.change);
            complete(minor, &mut old);
            let row = complete(minor, &mut new);
            super::update(row, &new, &old).iter().map(ToString::to_string).collect()
        })
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn validation_of_empty_objects_does_not_panic() {
    for row in every() {
        let object = serde_json::json!({"metadata": {}});
        assert!(!super::create(row, &object).is_empty(), "{}: a name is missing", row.plural);
        super::update(row, &object, &object);
        super::warnings(row, &object, None);
        super::update_subresource(row, "status", &object, &object);
    }
}

#[test]
fn status_updates_do_not_validate_the_spec_again() {
    let pods = crate::kind::lookup("", "v1", "pods").unwrap();
    let old = serde_json::json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": []}});
    assert!(super::update_subresource(pods, "status", &old, &old).is_empty());
    assert!(!super::update(pods, &old, &old).is_empty());
}

#[test]
fn surprising_valid_objects_cause_warnings() {
    let warnings = |object: Value| super::warnings(row_of(Minor::DEFAULT, &object).unwrap(), &object, None);
    let env = serde_json::json!([{"name": "A"}, {"name": "B"}, {"name": "A"}]);
    let ports =
        serde_json::json!([{"containerPort": 1, "protocol": "TCP"}, {"containerPort": 1, "protocol": "TCP"}]);
    let spec = serde_json::json!({"containers": [{"name": "a", "env": env, "ports": ports}]});
    assert_eq!(
        warnings(
            serde_json::json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r"}, "spec": {"template": {"spec": spec}}})
        ),
        [
            "spec.template.spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using apply",
            "spec.template.spec.containers[0].ports[1]: duplicate port definition with spec.template.spec.containers[0].ports[0]",
        ]
    );
    assert_eq!(
        warnings(serde_json::json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "e"}})),
        ["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"]
    );
    let dotted =
        warnings(serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a.b"}}));
    assert_eq!(
        dotted,
        [
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"
        ]
    );
}

#[test]
fn warnings_match_kubernetes() {
    let warnings = |object: Value| super::warnings(row_of(Minor::DEFAULT, &object).unwrap(), &object, None);
    let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
    "nodeSelector": {"beta.kubernetes.io/os": "linux"},
    "terminationGracePeriodSeconds": -1,
    "imagePullSecrets": [{"name": "s"}, {"name": "s"}],
    "topologySpreadConstraints": [{"topologyKey": "z"}],
    "volumes": [{"name": "v", "gitRepo": {}}],
    "containers": [
        {"name": "a", "env": [{"name": "P", "value": "/a"}, {"name": "P", "value": "/b:$(P)"}], "resources": {"limits": {"memory": "100m"}},
         "ports": [{"name": "web", "containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "TCP", "hostPort": 8080}]},
        {"name": "b", "ports": [{"name": "web", "containerPort": 81, "protocol": "TCP", "hostIP": "1.2.3.4"}]},
    ]}});
    assert_eq!(
        warnings(pod),
        [
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
            "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
            "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
            "spec.imagePullSecrets[1].name: duplicate name \"s\"",
            "spec.containers[0].resources.limits[memory]: fractional byte value \"100m\" is invalid, must be an integer",
            "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
            "spec.containers[1].ports[0]: hostIP set without hostPort: {Name:web HostPort:0 ContainerPort:81 Protocol:TCP HostIP:1.2.3.4}",
            "spec.containers[1].ports[0]: duplicate port name \"web\" with spec.containers[0].ports[0], services and probes that select ports by name will use spec.containers[0].ports[0]",
            "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
        ]
    );
    let service = serde_json::json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"type": "ClusterIP", "externalName": "a", "externalIPs": ["2001:0db8::1"], "trafficDistribution": "PreferClose"}});
    assert_eq!(
        warnings(service),
        [
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
            "spec.externalIPs[0]: IPv6 address \"2001:0db8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")",
        ]
    );
}

#[test]
fn oversized_values_are_refused_with_their_limit() {
    let long = |n: usize| "x".repeat(n);
    let encoded = |n: usize| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, long(n));
    let map = |metadata: Value, data: Value, binary: Value| serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data, "binaryData": binary});
    let secret = |n: usize| serde_json::json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": encoded(n)}});
    let slice = |endpoints: usize, addresses: usize| {
        let addresses: Vec<String> =
            (0..addresses).map(|n| format!("10.0.{}.{}", n / 250, n % 250 + 1)).collect();
        let endpoints = vec![serde_json::json!({"addresses": addresses}); endpoints];
        serde_json::json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "s"},
            "addressType": "IPv4", "endpoints": endpoints})
    };
    let named = serde_json::json!({"name": "c"});
    let annotated = |n: usize| serde_json::json!({"name": "c", "annotations": {"a": long(n - 1)}});
    let labelled =
        |key: usize, value: usize| serde_json::json!({"name": "c", "labels": {long(key): long(value)}});
    let none = || serde_json::json!({});
    let (many, half) = (1 << 20, 1 << 19);
    let key = "name part must be no more than 63 bytes";
    let cases = [
        (map(annotated(262_144), none(), none()), ""),
        (
            map(annotated(262_145), none(), none()),
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ),
        (map(labelled(63, 63), none(), none()), ""),
        (map(labelled(64, 1), none(), none()), key),
        (map(labelled(1, 64), none(), none()), "must be no more than 63 bytes"),
        (
            map(named.clone(), serde_json::json!({"a": long(half)}), serde_json::json!({"b": encoded(half)})),
            "",
        ),
        (
            map(
                named.clone(),
                serde_json::json!({"a": long(half)}),
                serde_json::json!({"b": encoded(half + 1)}),
            ),
            "[]: Too long: may not be more than 1048576 bytes",
        ),
        (map(named, serde_json::json!({long(254): ""}), none()), "must be no more than 253 characters"),
        (secret(many), ""),
        (secret(many + 1), "data: Too long: may not be more than 1048576 bytes"),
        (slice(1000, 1), ""),
        (slice(1001, 1), "endpoints: Too many: 1001: must have at most 1000 items"),
        (slice(1, 100), ""),
        (slice(1, 101), "endpoints[0].addresses: Too many: 101: must have at most 100 items"),
    ];
    for (mut object, want) in cases {
        let row = complete(Minor::DEFAULT, &mut object);
        let errors: Vec<String> = super::create(row, &object).iter().map(ToString::to_string).collect();
        let said = errors.first().map_or("", String::as_str);
        assert!(
            errors.len() < 2 && said.ends_with(want) && said.is_empty() == want.is_empty(),
            "{want}: {said:.300}"
        );
    }
}
