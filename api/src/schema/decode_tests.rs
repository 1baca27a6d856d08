//! Tests of decoding: the objects and problems that Kubernetes gets from request bodies.

use super::decode::{Mode, normalize};
use super::fill::{fill, fill_stored};
use super::strict::{duplicate_fields, in_document_order};
use super::{lookup, of};
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(kind: (&str, &str, &str), mut body: Value) -> Result<(Value, Vec<String>), String> {
    let ty = of(kind.0, kind.1, kind.2).unwrap();
    let problems = normalize(&mut body, ty, Mode::Whole).map_err(|e| e.to_string())?;
    Ok((body, problems.iter().map(ToString::to_string).collect()))
}

const DEPLOYMENT: (&str, &str, &str) = ("apps", "v1", "Deployment");
const POD: (&str, &str, &str) = ("", "v1", "Pod");

#[test]
fn type_errors_name_types_as_go_does() {
    let field = |text: &str| format!("json: cannot unmarshal {text}");
    let cases = [
        (
            DEPLOYMENT,
            json!({"spec": {"replicas": "3"}}),
            "string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            DEPLOYMENT,
            json!({"spec": {"replicas": 1.5}}),
            "number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            DEPLOYMENT,
            json!({"spec": {"replicas": 3_000_000_000_i64}}),
            "number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            POD,
            json!({"spec": {"containers": {}}}),
            "object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            POD,
            json!({"spec": {"containers": [{"ports": [{"containerPort": "a"}]}]}}),
            "string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (POD, json!({"spec": []}), "array into Go struct field Pod.spec of type v1.PodSpec"),
        (
            POD,
            json!({"metadata": {"labels": {"a": 1}}}),
            "number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (POD, json!([]), "array into Go value of type v1.Pod"),
    ];
    for (kind, body, want) in cases {
        assert_eq!(read(kind, body).unwrap_err(), field(want));
    }
    let bad = [
        (
            json!({"metadata": {"deletionTimestamp": "soon"}}),
            "parsing time \"soon\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"soon\" as \"2006\"",
        ),
        (
            json!({"spec": {"overhead": {"cpu": "1x"}}}),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ];
    for (body, want) in bad {
        assert_eq!(read(POD, body).unwrap_err(), want);
    }
    let secret = read(("", "v1", "Secret"), json!({"data": {"a": "!!"}})).unwrap_err();
    assert_eq!(secret, "illegal base64 data at input byte 0");
}

#[test]
fn unknown_members_are_removed_and_reported_with_their_path() {
    let body = json!({"kind": "Pod", "extra": 1, "spec": {"containers": [{"name": "a"}, {"image2": "x", "name": "b"}],
        "volumes": [{"name": "v", "emptyDir": {"medium2": 1}}]}});
    let (value, problems) = read(POD, body).unwrap();
    let want = [
        "unknown field \"extra\"",
        "unknown field \"spec.containers[1].image2\"",
        "unknown field \"spec.volumes[0].emptyDir.medium2\"",
    ];
    assert_eq!(problems, want);
    let left = json!({"kind": "Pod", "spec": {"containers": [{"name": "a"}, {"name": "b"}],
        "volumes": [{"name": "v", "emptyDir": {}}]}});
    assert_eq!(value, left);
}

#[test]
fn zero_values_are_removed_unless_they_differ_from_absence() {
    let body = json!({"metadata": {"name": "a", "creationTimestamp": null, "labels": {}, "generation": 0},
        "spec": {"replicas": 0, "selector": {}, "strategy": {}, "paused": false, "template": {"metadata": {"creationTimestamp": null}}},
        "status": {}});
    let (value, _) = read(DEPLOYMENT, body).unwrap();
    assert_eq!(value, json!({"metadata": {"name": "a"}, "spec": {"replicas": 0, "selector": {}}}));
    let (role, _) = read(("rbac.authorization.k8s.io", "v1", "Role"), json!({"rules": []})).unwrap();
    assert_eq!(role, json!({"rules": []}), "a list without omitempty may be empty");
    let (map, _) = read(("", "v1", "ConfigMap"), json!({"data": {"a": null, "b": ""}})).unwrap();
    assert_eq!(map, json!({"data": {"a": "", "b": ""}}));
    let (books, _) = read(("", "v1", "ConfigMap"), json!({"metadata": {"managedFields": []}})).unwrap();
    assert_eq!(books, json!({"metadata": {"managedFields": []}}), "no owners is not nothing about owners");
}

#[test]
fn apply_configurations_keep_zero_values_nulls_and_unknown_members() {
    let mut body = json!({"spec": {"paused": false, "strategy": {}, "odd": 1, "minReadySeconds": null}});
    let problems = normalize(&mut body, of("apps", "v1", "Deployment").unwrap(), Mode::Partial).unwrap();
    let kept = json!({"spec": {"minReadySeconds": null, "odd": 1, "paused": false, "strategy": {}}});
    assert_eq!((body, problems.len()), (kept, 1));
}

#[test]
fn scalars_are_written_in_canonical_form() {
    let body = json!({"metadata": {"creationTimestamp": "2024-05-01T10:00:00.75+02:00", "deletionTimestamp": "0001-01-01T00:00:00Z"},
        "spec": {"containers": [{"resources": {"limits": {"cpu": "1000m", "memory": 1024.5}}}]}});
    let (pod, _) = read(POD, body).unwrap();
    let want = json!({"metadata": {"creationTimestamp": "2024-05-01T08:00:00Z"},
        "spec": {"containers": [{"resources": {"limits": {"cpu": "1", "memory": "1024500m"}}}]}});
    assert_eq!(pod, want);
    let lease = json!({"spec": {"renewTime": "2024-05-01T10:00:00.000000Z", "acquireTime": "2024-05-01T12:00:00.123456+02:00"}});
    let (lease, _) = read(("coordination.k8s.io", "v1", "Lease"), lease).unwrap();
    let want = json!({"spec": {"renewTime": "2024-05-01T10:00:00.000000Z", "acquireTime": "2024-05-01T10:00:00.123456Z"}});
    assert_eq!(lease, want);
}

#[test]
fn amounts_of_resources_are_kept_in_thousandths_and_other_quantities_exactly() {
    let limits = json!({"cpu": "1n", "memory": "1500u", "x/y": "-0.0001", "pods": "1e-6"});
    let kept = json!({"cpu": "1m", "memory": "2m", "x/y": "-1m", "pods": "1e-3"});
    let body = json!({"spec": {"containers": [{"resources": {"limits": limits}}], "overhead": limits}});
    let (pod, _) = read(POD, body).unwrap();
    assert_eq!(pod, json!({"spec": {"containers": [{"resources": {"limits": kept}}], "overhead": kept}}));
    let requests = json!([{"name": "r", "exactly": {"capacity": {"requests": {"memory": "1u"}}}}]);
    let claim = json!({"spec": {"devices": {"requests": requests}}});
    let (exact, _) = read(("resource.k8s.io", "v1", "ResourceClaim"), claim.clone()).unwrap();
    assert_eq!(exact, claim);
}

#[test]
fn json_schemas_are_decoded_in_all_their_forms() {
    let schema = json!({"type": "object", "additionalProperties": false, "bad": 1,
        "properties": {"a": {"items": {"type": "string"}, "default": {"x": null}}, "b": {"items": [{"bad": 1}], "enum": [null, 1]},
            "c": {"additionalProperties": {"type": "integer", "bad": 2}}}, "dependencies": {"a": ["b"], "c": {"type": "object"}}});
    let mut value = json!({"openAPIV3Schema": schema});
    let ty =
        lookup("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceValidation").unwrap();
    let problems = normalize(&mut value, ty, Mode::Whole).unwrap();
    assert_eq!(
        problems.len(),
        1,
        "those below `items` and `additionalProperties` are dropped and not reported"
    );
    assert_eq!(value.pointer("/openAPIV3Schema/additionalProperties"), Some(&json!(false)));
    assert_eq!(value.pointer("/openAPIV3Schema/properties/b/enum/0"), Some(&Value::Null));
}

#[test]
fn fill_adds_the_zero_members_that_kubernetes_always_prints() {
    let mut pod =
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "env": [{"name": "e"}]}]}});
    fill(&mut pod, of("", "v1", "Pod").unwrap());
    let want = json!({"metadata": {"name": "a"}, "status": {},
        "spec": {"containers": [{"name": "c", "resources": {}, "env": [{"name": "e"}]}]}});
    assert_eq!(pod, want);
    let mut set = json!({"status": {}});
    fill(&mut set, of("apps", "v1", "ReplicaSet").unwrap());
    let template = json!({"metadata": {}, "spec": {"containers": null}});
    let spec = json!({"selector": null, "template": template});
    assert_eq!(set, json!({"metadata": {}, "spec": spec, "status": {"replicas": 0}}));
    let mut service = json!({"spec": {"ports": [{"port": 80}]}});
    fill(&mut service, of("", "v1", "Service").unwrap());
    let want = json!({"metadata": {}, "spec": {"ports": [{"port": 80, "targetPort": 0}]}, "status": {"loadBalancer": {}}});
    assert_eq!(service, want);
}

/// Group and version, kind, object, and the member that kube-apiserver 1.36.2 prints as null.
const NIL: &str = r#"
rbac.authorization.k8s.io/v1 Role {} /rules
rbac.authorization.k8s.io/v1 ClusterRole {"rules":[]} /rules
rbac.authorization.k8s.io/v1 Role {"rules":[{"verbs":[]}]} /rules/0/verbs
discovery.k8s.io/v1 EndpointSlice {"endpoints":[]} /endpoints
discovery.k8s.io/v1 EndpointSlice {} /ports
v1 LimitRange {"spec":{"limits":[]}} /spec/limits
resource.k8s.io/v1 ResourceClaim {"spec":{"devices":{"config":[{"requests":["a"]}]}}} /spec/devices/requests
storage.k8s.io/v1 CSINode {"spec":{"drivers":[]}} /spec/drivers
storage.k8s.io/v1 CSINode {"spec":{"drivers":[{"name":"d"}]}} /spec/drivers/0/topologyKeys
v1 Pod {"spec":{"volumes":[{"name":"v","projected":{"sources":[]}}]}} /spec/volumes/0/projected/sources
v1 PersistentVolumeClaim {"spec":{"dataSource":{"kind":"K","name":"n"}}} /spec/dataSource/apiGroup
autoscaling/v2 HorizontalPodAutoscaler {} /status/currentMetrics
flowcontrol.apiserver.k8s.io/v1 FlowSchema {"spec":{"rules":[{"resourceRules":[{"verbs":["get"]}]}]}} /spec/rules/0/resourceRules/0/namespaces
v1 Node {"status":{"conditions":[{"type":"Ready"}]}} /status/conditions/0/lastHeartbeatTime
v1 Node {"status":{"images":[{"sizeBytes":1}]}} /status/images/0/names
v1 Pod {"status":{"conditions":[{"type":"Ready"}]}} /status/conditions/0/lastProbeTime
v1 Pod {"status":{"conditions":[{"type":"Ready"}]}} /status/conditions/0/lastTransitionTime
v1 Service {"status":{"conditions":[{"type":"X"}]}} /status/conditions/0/lastTransitionTime
v1 Event {} /firstTimestamp
v1 Event {} /lastTimestamp
v1 Event {} /eventTime
events.k8s.io/v1 Event {} /deprecatedLastTimestamp
apps/v1 ControllerRevision {} /data
apiextensions.k8s.io/v1 CustomResourceDefinition {} /status/conditions
"#;

#[test]
fn nil_lists_maps_pointers_and_times_are_printed_as_null() {
    let stored = |api_version: &str, kind: &str, object: &str| {
        let (group, version) = crate::group_version::split_api_version(api_version);
        let (mut object, _) = read((group, version, kind), serde_json::from_str(object).unwrap()).unwrap();
        fill_stored(&mut object, of(group, version, kind).unwrap());
        object
    };
    for line in NIL.trim().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [api_version, kind, object, pointer] = words[..] else { panic!("{line}") };
        let object = stored(api_version, kind, object);
        assert_eq!(object.pointer(pointer), Some(&Value::Null), "{line}: {object}");
    }
    let absent = [
        ("v1", "Pod", "/metadata/creationTimestamp"),
        ("v1", "Pod", "/spec/volumes"),
        ("v1", "Node", "/status/images"),
        ("v1", "ConfigMap", "/data"),
        ("coordination.k8s.io/v1", "Lease", "/spec/renewTime"),
    ];
    for (api_version, kind, pointer) in absent {
        let object = stored(api_version, kind, "{}");
        assert_eq!(object.pointer(pointer), None, "{kind} {pointer}: {object}");
    }
}

/// Kubernetes stores these two kinds as JSON, which tells an empty list from none. Webhooks and policies see what was sent.
#[test]
fn empty_lists_stay_in_kinds_that_are_stored_as_json_and_in_objects_that_are_not_stored() {
    let definition = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let (mut object, _) =
        read(definition, json!({"status": {"conditions": [], "storedVersions": []}})).unwrap();
    fill_stored(&mut object, of(definition.0, definition.1, definition.2).unwrap());
    assert_eq!(object["status"]["storedVersions"], json!([]));
    let mut role = json!({"rules": []});
    fill(&mut role, of("rbac.authorization.k8s.io", "v1", "Role").unwrap());
    assert_eq!(role["rules"], json!([]));
}

#[test]
fn duplicate_members_are_found_at_every_depth() {
    let json = br#"{"spec": {"replicas": 1, "replicas": 2, "l": [{"a": 1}, {"a": 1, "a": 2}]}, "spec": {}}"#;
    let found: Vec<_> = duplicate_fields(json).iter().map(ToString::to_string).collect();
    let want =
        ["duplicate field \"spec.replicas\"", "duplicate field \"spec.l[1].a\"", "duplicate field \"spec\""];
    assert_eq!(found, want);
    assert!(duplicate_fields(b"{\"a\":1,").is_empty());
}

/// Strict problems have the order of `sigs.k8s.io/json`: document order, each once, none from below an
/// unknown field.
#[test]
fn strict_problems_are_in_document_order() {
    let json = br#"{"zzz": {"a": 1, "a": 2}, "spec": {"replicas": 1, "replicas": 2, "odd": 1, "odd": 2, "replicas": 3}, "zzz": 1, "aaa": 1}"#;
    let mut value: Value = serde_json::from_slice(json).unwrap();
    let unknown = normalize(&mut value, of("apps", "v1", "ReplicaSet").unwrap(), Mode::Whole).unwrap();
    let found: Vec<_> = in_document_order(json, unknown, None).iter().map(ToString::to_string).collect();
    let want = [
        "unknown field \"zzz\"",
        "duplicate field \"spec.replicas\"",
        "unknown field \"spec.odd\"",
        "unknown field \"aaa\"",
    ];
    assert_eq!(found, want);
}

fn any_json() -> impl Strategy<Value = Value> {
    let names =
        "(metadata|spec|status|name|labels|containers|template|selector|replicas|ports|resources|limits|x)";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z0-9:.-]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..5)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn normalizing_never_panics_and_is_idempotent(mut value in any_json()) {
        let ty = of("apps", "v1", "Deployment").unwrap();
        if normalize(&mut value, ty, Mode::Whole).is_ok() {
            let once = value.clone();
            prop_assert_eq!(normalize(&mut value, ty, Mode::Whole), Ok(Vec::new()));
            prop_assert_eq!(&value, &once);
            fill(&mut value, ty);
            prop_assert_eq!(normalize(&mut value, ty, Mode::Whole), Ok(Vec::new()));
            prop_assert_eq!(&value, &once, "filling adds only what equals absence");
            fill_stored(&mut value, ty);
            prop_assert_eq!(normalize(&mut value, ty, Mode::Whole), Ok(Vec::new()));
            let same = crate::object::semantically_equal(&value, &once);
            prop_assert!(same, "storing makes only what is empty absent: {} {}", value, once);
        }
    }
}

/// Texts that Go's `time.Parse` takes and refuses, with the layouts of `Time` and `MicroTime`.
#[test]
fn times_are_as_strict_as_those_of_go() {
    let time = |text: &str| super::scalar::time(text).ok().flatten();
    let micro = |text: &str| super::scalar::micro_time(text).ok().flatten();
    let cases = [
        ("2024-05-01T10:00:00Z", Some("2024-05-01T10:00:00Z"), None),
        ("2024-05-01T10:00:00.5Z", Some("2024-05-01T10:00:00Z"), None),
        ("2024-05-01T10:00:00.123456Z", Some("2024-05-01T10:00:00Z"), Some("2024-05-01T10:00:00.123456Z")),
        (
            "2024-05-01T10:00:00.123456+02:00",
            Some("2024-05-01T08:00:00Z"),
            Some("2024-05-01T08:00:00.123456Z"),
        ),
        ("2024-05-01T10:00:00.123Z", Some("2024-05-01T10:00:00Z"), None),
        ("2024-05-01T10:00:00.123456789Z", Some("2024-05-01T10:00:00Z"), None),
        ("9999-12-31T23:59:59Z", Some("9999-12-31T23:59:59Z"), None),
        ("9999-12-31T23:59:59.000001Z", Some("9999-12-31T23:59:59Z"), Some("9999-12-31T23:59:59.000001Z")),
        ("0000-01-01T00:00:00Z", Some("0000-01-01T00:00:00Z"), None),
        ("2024-01-02 03:04:05Z", None, None),
        ("2024-01-02t03:04:05Z", None, None),
        ("2024-01-02T03:04:05z", None, None),
        ("2024-01-02T03:04:60Z", None, None),
        ("2024-01-02T24:00:00Z", None, None),
        ("2024-02-30T00:00:00Z", None, None),
        ("2024-01-02T03:04:05", None, None),
        ("2024-01-02T03:04:05.Z", None, None),
        ("2024-01-02T03:04:05+0200", None, None),
        ("2024-01-02T03:04:05+25:00", None, None),
        ("+024-01-02T03:04:05Z", None, None),
        ("", None, None),
    ];
    for (text, want, want_micro) in cases {
        assert_eq!(time(text).as_deref(), want, "{text}");
        assert_eq!(micro(text).as_deref(), want_micro, "{text} as a MicroTime");
    }
    assert_eq!(super::scalar::time("0001-01-01T00:00:00Z"), Ok(None), "Go's zero time");
    assert_eq!(super::scalar::seconds_and_nanos("1969-12-31T23:59:59.25Z"), Ok((-1, 250_000_000)));
    assert_eq!(crate::meta::parse_time("9999-12-31T23:59:59Z"), Some(jiff::Timestamp::MAX));
}

/// Types with a decoder of their own in Go end the strict check; below all others it goes on.
#[test]
fn strict_checks_end_at_types_with_decoders_of_their_own() {
    let strict = |kind: (&str, &str, &str), json: &str| -> Vec<String> {
        let ty = of(kind.0, kind.1, kind.2).unwrap();
        let mut body: Value = serde_json::from_str(json).unwrap();
        let unknown = normalize(&mut body, ty, Mode::Whole).unwrap();
        in_document_order(json.as_bytes(), unknown, Some(ty)).iter().map(ToString::to_string).collect()
    };
    let definition = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let schema = |inner: &str| {
        format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{{{inner}}}}}}}]}}}}"#)
    };
    let odd = r#"{"type":"string","type":"string","optional":true}"#;
    let at = "spec.versions[0].schema.openAPIV3Schema";
    let open = [
        format!(r#""items":{odd}"#),
        format!(r#""items":{{"anyOf":[{odd}]}}"#),
        format!(r#""additionalProperties":{odd}"#),
        format!(r#""additionalItems":{odd}"#),
        format!(r#""dependencies":{{"a":{odd}}}"#),
        r#""default":{"a":1,"a":2}"#.to_owned(),
        r#""enum":[{"a":1,"a":2}]"#.to_owned(),
        r#""example":{"a":1,"a":2}"#.to_owned(),
    ];
    for inner in open {
        assert_eq!(strict(definition, &schema(&inner)), [""; 0], "{inner}");
    }
    let checked = [
        (format!(r#""properties":{{"p":{odd}}}"#), "properties.p"),
        (format!(r#""not":{odd}"#), "not"),
        (format!(r#""anyOf":[{odd}]"#), "anyOf[0]"),
    ];
    for (inner, path) in checked {
        let want = [
            format!("duplicate field \"{at}.{path}.type\""),
            format!("unknown field \"{at}.{path}.optional\""),
        ];
        assert_eq!(strict(definition, &schema(&inner)), want, "{inner}");
    }
    assert_eq!(strict(("apps", "v1", "ControllerRevision"), r#"{"data":{"a":1,"a":2}}"#), [""; 0]);
    let fields = r#"{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{},"f:a":{}}}]}}"#;
    assert_eq!(strict(POD, fields), [""; 0]);
    let parameters = r#"{"spec":{"devices":{"config":[{"opaque":{"parameters":{"a":1,"a":2}}}]}}}"#;
    assert_eq!(strict(("resource.k8s.io", "v1", "ResourceClaim"), parameters), [""; 0]);
    assert_eq!(
        strict(POD, r#"{"spec":{"nodeName":"a","nodeName":"b"}}"#),
        ["duplicate field \"spec.nodeName\""]
    );
}
