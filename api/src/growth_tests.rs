//! Tests of time complexity in the length of lists. The server processes an object before it responds, on
//! threads that requests share, so a quadratic rule would let one small request stop it. The test fills the
//! lists of each struct in the field table and compares the processor time of every stage for two lengths.

use crate::patch::apply::{self, ObjectType, Write};
use crate::patch::{json as json_patch, merge, strategic};
use crate::resource::Resource;
use crate::schema::decode::{Mode, normalize};
use crate::schema::{self, Elem, Field, Shape, Type};
use crate::wire::protobuf;
use crate::{defaults, kind, strategy, structural, table, validate};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// Shorter length of a list; the longer one is [`FACTOR`] times as long.
const SHORT: usize = 80;
const FACTOR: usize = 8;
/// Highest accepted ratio of times. Linear growth has a ratio of [`FACTOR`], quadratic growth of 64.
const MOST: u32 = 24;
/// Factor and highest ratio for a third length; quadratic growth has a ratio of 16.
const FACTOR_AGAIN: usize = 4;
const MOST_AGAIN: u32 = 10;
/// Stages faster than this are ignored: caches and allocations dominate their times.
const NOTEWORTHY: Duration = Duration::from_millis(6);
/// Number of repetitions for a stage that seems to grow too fast. The shortest times count, because other
/// work on the machine empties the processor's caches.
const REPEATS: usize = 8;

/// Depth of nested structs that are filled together, so that rules about two lists see both grow.
const DEPTH: usize = 3;

#[derive(Clone, Copy)]
enum Items {
    Equal,
    Distinct,
}

/// A value of a scalar type.
fn scalar(elem: Elem, items: Items, i: usize) -> Value {
    let number = match items {
        Items::Equal => 1,
        Items::Distinct => i + 1,
    };
    match elem {
        Elem::String => json!(format!("x{number}")),
        Elem::Bool => json!(true),
        Elem::Int32 | Elem::Int64 | Elem::IntOrString => json!(number),
        Elem::Float64 => json!(1.5),
        Elem::Bytes => json!("eA=="),
        Elem::Time => json!("2024-02-29T23:59:59Z"),
        Elem::MicroTime => json!("2024-02-29T23:59:59.000001Z"),
        Elem::Quantity => json!(number.to_string()),
        Elem::Raw | Elem::FieldsV1 => json!({(format!("f:x{number}")): {}}),
        Elem::Json => json!("x"),
        Elem::Items => json!(["x"]),
        Elem::SchemaOrList | Elem::SchemaOrBool => json!({}),
        Elem::SchemaOrStrings => json!(["a"]),
        Elem::Struct(ty) => {
            let single = |field: &&Field| field.shape == Shape::One && field.struct_type().is_none();
            let fields = ty.get().fields.iter().filter(single);
            Value::Object(fields.map(|f| (f.name.to_owned(), scalar(f.elem, items, i))).collect())
        }
    }
}

/// A struct in which all lists and maps, nested ones included, have `length` items.
fn filled(ty: &'static Type, items: Items, length: usize, depth: usize) -> Value {
    let mut map = Map::new();
    for field in ty.fields {
        let value = match (field.shape, field.struct_type()) {
            (Shape::List, _) => (0..length).map(|i| scalar(field.elem, items, i)).collect(),
            (Shape::Map, _) => {
                let entry = |i: usize| (format!("k{i}"), scalar(field.elem, items, i));
                Value::Object((0..length).map(entry).collect())
            }
            (Shape::One, Some(nested)) if depth > 0 => filled(nested, items, length, depth - 1),
            (Shape::One, Some(_)) => continue,
            (Shape::One, None) => scalar(field.elem, items, 0),
        };
        map.insert(field.name.to_owned(), value);
    }
    Value::Object(map)
}

/// Position of a struct in a kind: the members that lead to it, lists by their first item.
#[derive(Clone)]
struct StructPosition {
    resource: &'static Resource,
    path: Vec<&'static Field>,
    ty: &'static Type,
}

impl StructPosition {
    fn object(&self, items: Items, length: usize) -> Value {
        let mut value = filled(self.ty, items, length, DEPTH);
        for field in self.path.iter().rev() {
            value = match field.shape {
                Shape::One => json!({(field.name): value}),
                Shape::List => json!({(field.name): [value]}),
                Shape::Map => json!({(field.name): {"k": value}}),
            };
        }
        value["apiVersion"] = self.resource.api_version().into();
        value["kind"] = self.resource.kind.into();
        for (member, text) in [("name", "x"), ("uid", "u"), ("creationTimestamp", "2024-02-29T23:59:59Z")] {
            value["metadata"][member] = text.into();
        }
        if self.resource.namespaced {
            value["metadata"]["namespace"] = "default".into();
        }
        value
    }

    fn shown(&self) -> String {
        let names: Vec<&str> = self.path.iter().map(|field| field.name).collect();
        format!("{}.{}", self.resource.kind, names.join("."))
    }
}

/// The structs of all kinds, each at its first position.
fn positions() -> Vec<StructPosition> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for resource in kind::stored() {
        let Some(ty) = schema::of(resource.group, resource.version, resource.kind) else { continue };
        collect(&StructPosition { resource, path: Vec::new(), ty }, &mut seen, &mut found);
    }
    found
}

fn collect(position: &StructPosition, seen: &mut BTreeSet<String>, found: &mut Vec<StructPosition>) {
    // JSON schemas nest without end and belong to custom resources, which have another test.
    if !seen.insert(position.ty.openapi_name()) || position.ty.name.starts_with("JSONSchema") {
        return;
    }
    if position.ty.fields.iter().any(|field| field.shape != Shape::One) {
        found.push(position.clone());
    }
    for field in position.ty.fields {
        if let Some(ty) = field.struct_type() {
            let path = position.path.iter().copied().chain([field]).collect();
            collect(&StructPosition { resource: position.resource, path, ty }, seen, found);
        }
    }
}

/// Times of the stages of request processing for an object.
fn stages(resource: &'static Resource, sent: &Value) -> Vec<(&'static str, Duration)> {
    let ty = schema::of(resource.group, resource.version, resource.kind).expect("a stored kind has a type");
    let mut times = Vec::new();
    let mut object = sent.clone();
    time(&mut times, "decode", || drop(normalize(&mut object, ty, Mode::Whole)));
    let decoded = object.clone();
    time(&mut times, "defaults", || defaults::apply(resource, &mut object));
    time(&mut times, "prepare", || strategy::prepare_create(resource, &mut object));
    time(&mut times, "validate", || drop(validate::create(resource, &object)));
    time(&mut times, "warnings", || drop(validate::warnings(resource, &object, None)));
    let mut live = decoded.clone();
    live["metadata"]["deletionTimestamp"] = "2024-02-29T23:59:59Z".into();
    let is_written = |verbs: &[&str]| verbs.contains(&"update") || verbs.contains(&"patch");
    let subresources = resource.subresources.iter().filter(|subresource| is_written(subresource.verbs));
    for subresource in subresources.map(|subresource| subresource.name).chain([""]) {
        let mut new = live.clone();
        time(&mut times, "prepare update", || {
            strategy::prepare_update(resource, subresource, &mut new, &live);
            strategy::date_update(resource, subresource, &mut new, &live, String::new);
        });
        time(&mut times, "validate update", || {
            drop(validate::update_subresource(resource, subresource, &new, &live));
        });
    }
    time(&mut times, "cells", || drop(table::cells(resource, &object, jiff::Timestamp::UNIX_EPOCH)));
    time(&mut times, "owners", || drop(strategy::drop_same_owners(&mut object)));
    time(&mut times, "strategic patch", || drop(strategic::apply(&decoded, &decoded, ty)));
    time(&mut times, "merge patch", || drop(merge::apply(&decoded, &decoded)));
    let mut config = decoded.clone();
    apply::remove_managed_fields(&mut config);
    for live in [None, Some(&decoded)] {
        time(&mut times, "apply", || drop(apply_to(resource, live, &config, ObjectType::BuiltIn(ty))));
        time(&mut times, "track", || {
            let mut new = config.clone();
            apply::track_update(live, &mut new, &write(resource), ObjectType::BuiltIn(ty));
        });
    }
    time(&mut times, "protobuf", || drop(protobuf::encode(&decoded).map(|bytes| protobuf::decode(&bytes))));
    times
}

fn write(resource: &'static Resource) -> Write<'static> {
    static VERSIONS: std::sync::OnceLock<std::collections::BTreeMap<(&str, &str), String>> =
        std::sync::OnceLock::new();
    let versions = VERSIONS
        .get_or_init(|| kind::stored().map(|row| ((row.group, row.version), row.api_version())).collect());
    Write {
        manager: "test",
        subresource: "",
        api_version: &versions[&(resource.group, resource.version)],
        now: "2024-02-29T23:59:59Z",
        reset: apply::reset_fields(resource, ""),
    }
}

fn apply_to(
    resource: &'static Resource,
    live: Option<&Value>,
    config: &Value,
    object: ObjectType<'_>,
) -> Result<Value, apply::ApplyError> {
    apply::apply(live, config, &write(resource), false, object)
}

/// The processor time of this thread: other work on the machine does not add to it.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

fn time(times: &mut Vec<(&'static str, Duration)>, stage: &'static str, run: impl FnOnce()) {
    let began = processor_time();
    run();
    times.push((stage, processor_time() - began));
}

/// Stages that grow too fast, with the shortest times for each length. A suspicious stage is measured with a
/// third length: where only short lists fit into the processor's cache, linear growth looks steeper once,
/// quadratic growth each time.
fn too_fast(measure: impl Fn(usize) -> Vec<(&'static str, Duration)>) -> Vec<String> {
    let suspects = steeper(&measure, SHORT, FACTOR, MOST, &|_| true);
    if suspects.is_empty() {
        return Vec::new();
    }
    let is_suspect = |stage: usize| suspects.iter().any(|(suspect, _)| *suspect == stage);
    let confirmed = steeper(&measure, SHORT * FACTOR, FACTOR_AGAIN, MOST_AGAIN, &is_suspect);
    confirmed.into_iter().map(|(_, text)| text).collect()
}

/// Indexes of the stages that take more than `most` times as long for `factor` times as many items.
fn steeper(
    measure: &impl Fn(usize) -> Vec<(&'static str, Duration)>,
    length: usize,
    factor: usize,
    most: u32,
    is_asked: &impl Fn(usize) -> bool,
) -> Vec<(usize, String)> {
    let mut long = measure(length * factor);
    let is_noteworthy =
        |(position, (_, time)): (usize, &(&str, Duration))| is_asked(position) && *time > NOTEWORTHY;
    if !long.iter().enumerate().any(is_noteworthy) {
        return Vec::new();
    }
    let mut short = measure(length);
    let grows = |short: &[(&str, Duration)], long: &[(&'static str, Duration)]| -> Vec<(usize, String)> {
        let pairs = short.iter().zip(long).enumerate().filter(|(position, _)| is_asked(*position));
        let pairs = pairs.filter(|(_, ((_, short), (_, long)))| *long > NOTEWORTHY && *long > *short * most);
        let text = |((_, short), (stage, long)): (&(&str, Duration), &(&str, Duration))| {
            format!("{stage}: {short:?} became {long:?} with {factor} times as many items")
        };
        pairs.map(|(position, pair)| (position, text(pair))).collect()
    };
    for _ in 0..REPEATS {
        if grows(&short, &long).is_empty() {
            return Vec::new();
        }
        for (times, length) in [(&mut short, length), (&mut long, length * factor)] {
            for ((_, least), (_, now)) in times.iter_mut().zip(measure(length)) {
                *least = (*least).min(now);
            }
        }
    }
    grows(&short, &long)
}

/// The part of the structs that `KSTORE_GROWTH_PART` asks for, as `0/3`: its number and how many there are. Else all are one part.
fn part() -> (usize, usize) {
    let Ok(part) = std::env::var("KSTORE_GROWTH_PART") else { return (0, 1) };
    let (number, of) = part.split_once('/').expect("a part is a number, a slash and a count");
    (number.parse().expect("a number"), of.parse().expect("a count"))
}

/// Stages of the structs of a part whose time grows faster than the number of items.
fn faster_than_linear(items: Items) -> Vec<String> {
    let (mut wrong, (number, of)) = (Vec::new(), part());
    for position in positions().into_iter().skip(number).step_by(of) {
        let found = too_fast(|length| stages(position.resource, &position.object(items, length)));
        wrong.extend(found.into_iter().map(|text| format!("{}: {text}", position.shown())));
    }
    wrong
}

// Two tests, because they take the longest of this crate and run beside each other.
#[test]
fn time_of_every_rule_is_linear_in_the_number_of_equal_items() {
    assert_eq!(faster_than_linear(Items::Equal), [""; 0]);
}

#[test]
fn time_of_every_rule_is_linear_in_the_number_of_distinct_items() {
    assert_eq!(faster_than_linear(Items::Distinct), [""; 0]);
}

/// Times one stage on an object of a given length.
fn stage<T>(name: &'static str, make: impl Fn(usize) -> Value, run: impl Fn(&Value) -> T) -> Vec<String> {
    let found = too_fast(|length| {
        let (object, mut times) = (make(length), Vec::new());
        time(&mut times, "run", || drop(run(&object)));
        times
    });
    found.into_iter().map(|text| format!("{name}: {text}")).collect()
}

fn row(group: &str, version: &str, plural: &str) -> &'static Resource {
    kind::lookup(group, version, plural).unwrap()
}

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec})
}

/// Tests lists that rules compare in pairs only together, in one order, or with certain values.
#[test]
fn pairs_of_lists_are_compared_in_linear_time() {
    let pods = row("", "v1", "pods");
    let texts = |length: usize| (0..length).map(|i| json!(format!("x.y/k{i}"))).collect::<Vec<_>>();
    let mut wrong = Vec::new();
    let warn = |object: &Value| validate::warnings(pods, object, None);
    let ports = |port: fn(usize) -> Value| {
        move |length| {
            let ports: Vec<Value> = (0..4 * length).map(port).collect();
            pod(json!({"containers": [{"name": "c", "ports": ports}]}))
        }
    };
    wrong.extend(stage("equal ports", ports(|_| json!({"containerPort": 80, "protocol": "TCP"})), warn));
    let hosts = ports(|i| json!({"containerPort": 80, "protocol": "TCP", "hostPort": i + 1}));
    wrong.extend(stage("ports of one number", hosts, warn));
    let addresses = ports(|i| json!({"containerPort": 80, "hostPort": 1, "hostIP": format!("10.0.{i}.1")}));
    wrong.extend(stage("addresses of one port", addresses, warn));
    let spread = |length| {
        let expressions: Vec<Value> =
            texts(length).iter().map(|key| json!({"key": key, "operator": "Exists"})).collect();
        pod(
            json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "matchLabelKeys": texts(length),
            "labelSelector": {"matchExpressions": expressions}}]}),
        )
    };
    wrong.extend(stage("label keys", spread, |object| validate::create(pods, object)));
    let quota = |length| {
        let hard: Map<String, Value> = (0..length).map(|i| (format!("x.y/k{i}"), json!("1"))).collect();
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"},
            "spec": {"hard": hard, "scopes": vec!["NotBestEffort"; length]}})
    };
    let quotas = row("", "v1", "resourcequotas");
    wrong.extend(stage("scopes", quota, |object| validate::create(quotas, object)));
    let claims = |length: usize| {
        let claims: Vec<Value> = (0..length).map(|i| json!({"name": format!("c{i}")})).collect();
        let used: Vec<Value> =
            (0..length).map(|i| json!({"name": format!("d{i}"), "request": "r"})).collect();
        pod(json!({"resourceClaims": claims, "containers": [{"name": "c", "resources": {"claims": used}}]}))
    };
    wrong.extend(stage("claims", claims, |object| validate::create(pods, object)));
    let controllers = |length: usize| {
        let owner = |i| json!({"apiVersion": "v1", "kind": "K", "name": format!("o{i}"), "uid": "u", "controller": true});
        let mut object = pod(json!({}));
        object["metadata"]["ownerReferences"] = (0..length).map(owner).collect();
        object
    };
    wrong.extend(stage("controllers", controllers, |object| validate::create(pods, object)));
    let broken = |length: usize| {
        let text: String = (0..40 * length).map(|i| format!("-----BEGIN A{i}-----\n")).collect();
        let csr = schema::scalar::base64(text.as_bytes());
        json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "r"},
            "spec": {"request": csr, "signerName": "a.b/c", "usages": ["any"]}})
    };
    let requests = row("certificates.k8s.io", "v1", "certificatesigningrequests");
    wrong.extend(stage("PEM blocks", broken, |object| validate::create(requests, object)));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Tests objects with thousands of managers, and changes of thousands of fields.
#[test]
fn managed_fields_are_processed_in_linear_time() {
    let mut wrong = Vec::new();
    let maps = row("", "v1", "configmaps");
    let ty = schema::of("", "v1", "ConfigMap").unwrap();
    for (name, operation) in [("updates", "Update"), ("applies", "Apply")] {
        for (word, version) in [("one version", false), ("many versions", true)] {
            let make = |length: usize| {
                let entry = |i: usize| {
                    let version = if version { format!("v{i}") } else { "v1".to_owned() };
                    json!({"manager": format!("m{i}"), "operation": operation, "apiVersion": version, "time": "2024-02-29T23:59:59Z",
                        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {(format!("f:k{i}")): {}}}})
                };
                let data = |word: &str| -> Map<String, Value> {
                    (0..length).map(|i| (format!("k{i}"), json!(word))).collect()
                };
                let entries: Vec<Value> = (0..length).map(entry).collect();
                let metadata = json!({"name": "c", "namespace": "default"});
                let mut live =
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data("a")});
                live["metadata"]["managedFields"] = entries.into();
                let config =
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data("b")});
                json!([live, config])
            };
            for object in [ObjectType::BuiltIn(ty), ObjectType::Custom(None)] {
                let apply = |both: &Value| apply_to(maps, Some(&both[0]), &both[1], object);
                wrong.extend(
                    stage("apply", make, apply).into_iter().map(|text| format!("{name}, {word}: {text}")),
                );
                let track = |both: &Value| {
                    let mut new = both[1].clone();
                    apply::track_update(Some(&both[0]), &mut new, &write(maps), object);
                };
                wrong.extend(
                    stage("track", make, track).into_iter().map(|text| format!("{name}, {word}: {text}")),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Tests a custom resource with every kind of list, whose items are mostly invalid.
#[test]
fn custom_resources_are_processed_in_linear_time() {
    let text = json!({"type": "string", "maxLength": 3, "pattern": "^x", "default": "x"});
    let item = json!({"type": "object", "required": ["v"], "properties": {"k": {"type": "string", "default": "k"},
        "v": {"type": "integer"}}});
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item});
    let tree = structural::Tree::compile(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "keyed": keyed, "nested": {"type": "array", "items": {"type": "object", "properties": {"keyed": keyed}}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "plain": {"type": "array", "items": item}, "map": {"type": "object", "additionalProperties": text},
        "alternatives": {"type": "array", "items": {"anyOf": [text, {"type": "integer"}]}}}}}}),
    );
    let tree = tree.unwrap();
    for (word, is_distinct) in [("equal", false), ("distinct", true)] {
        let make = move |length: usize| {
            let name = |i: usize| if is_distinct { format!("y{i}") } else { "y".to_owned() };
            let items: Vec<Value> = (0..4 * length).map(|i| json!({"k": name(i), "unknown": 1})).collect();
            let texts: Vec<String> = (0..4 * length).map(name).collect();
            let map: Map<String, Value> = (0..4 * length).map(|i| (format!("k{i}"), json!("y"))).collect();
            let nested: Vec<Value> =
                (0..length).map(|_| json!({"keyed": [{"k": "a"}, {"k": "a"}]})).collect();
            json!({"apiVersion": "a.b/v1", "kind": "C", "metadata": {"name": "c"}, "spec": {"keyed": items,
                "nested": nested, "set": texts, "plain": items, "map": map, "alternatives": texts}})
        };
        let read = |object: &Value| tree.read(&mut object.clone(), structural::Origin::Request);
        let create = |object: &Value| tree.validate(object, None, structural::ValidationScope::Whole);
        let update = |object: &Value| {
            let mut new = object.clone();
            new["spec"]["changed"] = json!(1);
            tree.validate(&new, Some(object), structural::ValidationScope::Whole)
        };
        let mut wrong = stage("read", make, read);
        wrong.extend(stage("create", make, create));
        wrong.extend(stage("update", make, update));
        let pods = row("", "v1", "pods");
        let of = ObjectType::Custom(Some(&tree));
        wrong.extend(stage("apply", make, |object| apply_to(pods, None, object, of)));
        let track = |object: &Value| {
            let mut new = object.clone();
            new["spec"]["set"] = json!([]);
            apply::track_update(None, &mut new, &write(pods), of);
            new["spec"]["set"] = object["spec"]["set"].clone();
            apply::track_update(Some(object), &mut new, &write(pods), of);
        };
        wrong.extend(stage("track", make, track));
        assert!(wrong.is_empty(), "{word} items: {}", wrong.join("\n"));
    }
}

#[test]
fn patches_take_bounded_time_on_long_lists() {
    let long = json!({"l": vec![0; 1_000_000], "m": {}});
    let remove = json!(vec![json!({"op": "remove", "path": "/l/0"}); 3000]);
    let error = json_patch::apply(&long, &remove).unwrap_err();
    assert!(error.to_string().contains("more than 20000000 list elements"), "{error}");
    for operation in [
        json!({"op": "add", "path": "/l/0", "value": 1}),
        json!({"op": "move", "from": "/l/0", "path": "/l/-"}),
    ] {
        assert!(json_patch::apply(&long, &json!(vec![operation; 3000])).is_err());
    }
    let last = json!(vec![json!({"op": "remove", "path": "/l/-1"}); 3000]);
    assert_eq!(json_patch::apply(&long, &last).unwrap()["l"].as_array().unwrap().len(), 997_000);
    let tests = json!(vec![json!({"op": "test", "path": "/m", "value": {}}); 3000]);
    assert!(json_patch::apply(&long, &tests).is_ok());

    let ty = schema::of("", "v1", "Pod").unwrap();
    let env: Vec<Value> = (0..20_000).map(|i| json!({"name": format!("e{i}")})).collect();
    let live = pod(json!({"containers": [{"name": "c", "env": env}]}));
    let again = json!({"spec": {"containers": vec![json!({"name": "c", "env": [{"name": "x"}]}); 1000]}});
    let error = strategic::apply(&live, &again, ty).unwrap_err();
    assert!(error.to_string().contains("more than 32 times"), "{error}");
    let primitive = |length: usize| {
        let all: Vec<String> = (0..8 * length).map(|i| format!("x/f{i}")).collect();
        json!([{"metadata": {"finalizers": all}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": all}}])
    };
    let wrong = stage("primitive lists", primitive, |both| strategic::apply(&both[0], &both[1], ty));
    assert_eq!(wrong, [""; 0]);
}

/// Tests a key as long as everything below it; no code may copy the key for each value.
#[test]
fn long_keys_are_not_copied_for_each_value_below_them() {
    let pods = row("", "v1", "pods");
    let ty = schema::of("", "v1", "Pod").unwrap();
    let make = |length: usize| {
        let env: Vec<Value> = (0..4 * length).map(|i| json!({"name": format!("e{i}"), "x": 1})).collect();
        let mut object = pod(json!({"containers": [{"name": "c".repeat(2_000 * length), "env": env}]}));
        let fields: Map<String, Value> = (0..4 * length).map(|i| (format!("f:x{i}"), json!({}))).collect();
        object["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": {("f:".to_owned() + &"k".repeat(2_000 * length)): fields}}]);
        object["unknown"] = json!(1);
        object
    };
    let mut wrong = Vec::new();
    let decode = |object: &Value| {
        let unknown = normalize(&mut object.clone(), ty, Mode::Whole).unwrap_or_default();
        schema::strict::in_document_order(object.to_string().as_bytes(), unknown, None)
    };
    wrong.extend(stage("decode", make, decode));
    wrong.extend(stage("validate", make, |object| validate::create(pods, object)));
    let bare = |object: &Value| {
        let mut object = object.clone();
        apply::remove_managed_fields(&mut object);
        object
    };
    let track = |object: &Value| {
        let (live, mut new) = (bare(object), bare(object));
        new["spec"]["containers"][0]["env"] = json!([]);
        apply::track_update(None, &mut new, &write(pods), ObjectType::BuiltIn(ty));
        new["spec"] = live["spec"].clone();
        apply::track_update(Some(&new.clone()), &mut new, &write(pods), ObjectType::BuiltIn(ty));
    };
    wrong.extend(stage("track", make, track));
    for of in [ObjectType::BuiltIn(ty), ObjectType::Custom(None)] {
        wrong.extend(stage("apply", make, |object| apply_to(pods, None, &bare(object), of)));
    }
    wrong.extend(stage("strategic patch", make, |object| strategic::apply(object, &bare(object), ty)));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
