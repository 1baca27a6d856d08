//! Fuzz targets of custom resources: definitions and objects of their kinds, expressions, webhook responses,
//! printer column paths.

use crate::admission::conversion::{Batch, Review};
use crate::admission::review::transport::HttpAnswer;
use crate::admission::review::{ReviewVersion, apply_patch, decode_patched, read_answer};
use crate::admission::webhook::{Hooks, Phase, Webhook};
use crate::crd::{Definition, columns, strategy, validate};
use crate::dice::Dice;
use crate::expression::base;
use crate::limits::WARNINGS_MAX;
use crate::meta;
use crate::schema;
use crate::structural::{Origin, Tree, ValidationScope};
use jiff::Timestamp;
use kstore_cel::{EvalError, Type, UnknownSizes, Val};
use serde_json::{Value, json};
use std::sync::Arc;

/// Cost limit of an expression: enough for nested loops, and evaluated quickly.
const COST: u64 = 20_000;

/// Uid of every review.
const UID: &str = "u";

/// Fuzzes JSON documents in sequence: a definition, an object of its kind, and the old object. Other bytes
/// generate a schema and objects.
pub(super) fn structural(bytes: &[u8]) {
    let documents = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let mut documents: Vec<Value> = documents.map_while(Result::ok).take(3).collect();
    if documents.len() < 2 {
        let mut dice = Dice(bytes);
        let schema = json!({"type": "object", "properties": {"spec": random_schema(&mut dice, 4)}});
        let spec =
            |dice: &mut Dice<'_>| json!({"apiVersion": "x.dev/v1", "kind": "Dog", "spec": dice.json(4)});
        documents = vec![definition(schema), spec(&mut dice), spec(&mut dice)];
    }
    documents.resize(3, Value::Null);
    let [mut definition, object, old]: [Value; 3] = documents.try_into().expect("there are three documents");
    strategy::set_defaults(&mut definition);
    strategy::prepare_create(&mut definition);
    // Two kinds of defaults that Kubernetes accepts make an object that the next read changes. Validation
    // skips defaults below additionalProperties, so they may be anything. A null in a default is valid where
    // the schema has no type; reads remove nulls before they set defaults, so the null stays until the next
    // read.
    let versions = &definition["spec"]["versions"];
    let is_checked = !has_default_in_additional(versions, false) && !has_null_in_default(versions);
    // The rules of metadata, which demand a name, are not among these.
    let is_valid = !meta::name(&definition).is_empty() && validate::create(&definition).is_empty();
    let Ok(compiled) = Definition::compile(&definition) else {
        assert!(!is_valid, "a valid definition compiles");
        return;
    };
    for version in &compiled.versions {
        laws_of_objects(&version.tree, is_valid && is_checked, &object, &old);
        let columns = columns::of_version(&definition["spec"]["versions"][0]);
        assert_eq!(columns::cells(&columns, &object, Timestamp::UNIX_EPOCH).len(), columns.len());
    }
}

/// Whether a schema below `additionalProperties` has a default.
fn has_default_in_additional(schema: &Value, is_below: bool) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(name, value)| {
            let is_below = is_below || name == "additionalProperties";
            is_below && name == "default" || has_default_in_additional(value, is_below)
        }),
        Value::Array(items) => items.iter().any(|item| has_default_in_additional(item, is_below)),
        _ => false,
    }
}

/// Whether a schema has a default with a null.
fn has_null_in_default(schema: &Value) -> bool {
    fn has_null(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Object(members) => members.values().any(has_null),
            Value::Array(items) => items.iter().any(has_null),
            _ => false,
        }
    }
    match schema {
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| (name == "default" && has_null(value)) || has_null_in_default(value)),
        Value::Array(items) => items.iter().any(has_null_in_default),
        _ => false,
    }
}

/// Checks pruning, defaulting and validation of an object, by the schema of a valid or invalid definition.
fn laws_of_objects(tree: &Arc<Tree>, is_valid: bool, object: &Value, old: &Value) {
    let mut read = object.clone();
    if tree.read(&mut read, Origin::Request).is_ok() {
        let _ = tree.validate(&read, Some(old), ValidationScope::Whole);
        let _ = tree.validate(&read, None, ValidationScope::Status);
    }
    let mut stored = object.clone();
    tree.complete(&mut stored);
    let mut again = stored.clone();
    let unknown = tree.complete(&mut again);
    if is_valid {
        assert!(unknown.is_empty(), "pruned, defaulted and pruned again: {unknown:?}");
        assert_eq!(again, stored, "pruning and defaults are idempotent");
    }
    let mut filled = stored.clone();
    tree.fill_defaults(&mut filled);
    assert_eq!(filled, stored, "defaults are idempotent");
    let _ = tree.validate(&stored, Some(old), ValidationScope::Whole);
    if is_valid && tree.validate(&stored, None, ValidationScope::Whole).is_empty() {
        let once = tree.validate_rules(&stored, None);
        assert_eq!(tree.validate_rules(&stored, None).errors, once.errors, "rules are functions");
        let _ = tree.validate_rules(&stored, Some(old));
    }
}

/// A definition of one version with this schema.
fn definition(schema: Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "dogs.x.dev"},
        "spec": {"group": "x.dev", "scope": "Namespaced", "names": {"plural": "dogs", "kind": "Dog"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

/// A random schema, often structural, with the names of [`Dice::json`].
fn random_schema(dice: &mut Dice<'_>, depth: usize) -> Value {
    let kinds = if depth == 0 { 4 } else { 8 };
    let mut schema = match dice.below(kinds) {
        0 => json!({"type": "integer", "minimum": dice.below(2)}),
        1 => json!({"type": "string", "maxLength": dice.below(3), "nullable": dice.one_in(3)}),
        2 => json!({"type": "boolean"}),
        3 => json!({"x-kubernetes-preserve-unknown-fields": true}),
        4 => json!({"type": "array", "maxItems": 4, "items": random_schema(dice, depth - 1)}),
        5 => json!({"type": "object", "additionalProperties": random_schema(dice, depth - 1)}),
        _ => {
            let property = |dice: &mut Dice<'_>| {
                (dice.pick(&["a", "b", "c/d", "~"]).to_owned(), random_schema(dice, depth - 1))
            };
            let properties: serde_json::Map<_, _> = (0..dice.below(4)).map(|_| property(dice)).collect();
            json!({"type": "object", "properties": properties})
        }
    };
    if dice.one_in(4) {
        schema["default"] = dice.json(2);
    }
    if dice.one_in(6) {
        let rules =
            ["self == self", "has(self.a)", "self.size() < 2", "oldSelf == self", "self.all(x, x == x)"];
        schema["x-kubernetes-validations"] = json!([{"rule": dice.pick(&rules)}]);
    }
    schema
}

/// Fuzzes a text as an expression on an untyped object, and as a rule of a typed one.
pub(super) fn expression(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let document =
        json!({"a": 1, "b": "bb", "list": [1, 2, 3], "map": {"k": "v"}, "items": [{"name": "n", "port": 1}]});
    let env = base::environment().extend().variable("self", Type::Dyn).build();
    if let Ok(checked) = env.compile(&text) {
        let _ = checked.estimate(&UnknownSizes);
        if let Ok(program) = checked.program() {
            let shape = kstore_cel::Shape::Dyn;
            let value = shape.value(&document).expect("any document has this shape");
            let run = |limit| program.eval(&[("self", value.clone())], limit);
            let (outcome, spent) = run(COST);
            if outcome != Err(EvalError::CostLimitExceeded) {
                let (again, cost) = run(spent);
                assert_eq!((again.is_err(), cost), (outcome.is_err(), spent), "enough is enough: {text}");
                if let Some(less) = spent.checked_sub(1) {
                    assert_eq!(run(less).0, Err::<Val<'_>, _>(EvalError::CostLimitExceeded), "{text}");
                }
            }
        }
    }
    let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": text, "messageExpression": text}],
        "properties": {"a": {"type": "integer"}, "b": {"type": "string", "maxLength": 8},
            "list": {"type": "array", "maxItems": 4, "items": {"type": "integer"}},
            "map": {"type": "object", "maxProperties": 4, "additionalProperties": {"type": "string"}},
            "items": {"type": "array", "maxItems": 4, "items": {"type": "object", "properties": {
                "name": {"type": "string", "maxLength": 8}, "port": {"type": "integer"}}}}}});
    let mut definition = definition(json!({"type": "object", "properties": {"spec": schema}}));
    strategy::set_defaults(&mut definition);
    strategy::prepare_create(&mut definition);
    // Validation refuses costly rules, so none runs here.
    if validate::create(&definition).is_empty() {
        let compiled = Definition::compile(&definition).expect("a valid definition compiles");
        let object = json!({"apiVersion": "x.dev/v1", "kind": "Dog", "spec": document});
        let tree = &compiled.versions[0].tree;
        let _ = tree.validate_rules(&object, None);
        let _ = tree.validate_rules(&object, Some(&object));
    }
}

fn hook(phase: Phase, version: &str) -> Arc<Webhook> {
    let hook = json!({"name": "h.x.dev", "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}],
        "sideEffects": "None", "admissionReviewVersions": [version], "failurePolicy": "Fail", "matchPolicy": "Equivalent",
        "namespaceSelector": {}, "objectSelector": {}, "timeoutSeconds": 10});
    let configuration = json!({"metadata": {"name": "c"}, "webhooks": [hook]});
    let hooks = Hooks::new(phase, [&configuration]);
    hooks.iter().next().expect("the configuration has a hook").clone()
}

/// Response of a webhook: the first byte selects status and content type, the others are the body.
fn http(bytes: &[u8]) -> HttpAnswer<'_> {
    let (first, body) = bytes.split_first().unwrap_or((&0, &[]));
    let content_type = ["application/json", "text/plain", "application/vnd.kubernetes.protobuf", ""];
    let status = if *first < 128 { 200 } else { u16::from(*first) * 4 };
    HttpAnswer { status, content_type: content_type[usize::from(*first) % content_type.len()], body }
}

/// Fuzzes the response to an AdmissionReview: the result is within its bounds, and its patch applies or is
/// refused.
pub(super) fn admission_review(bytes: &[u8]) {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b"}});
    let config_map = schema::of("", "v1", "ConfigMap").expect("the table has ConfigMaps");
    for phase in [Phase::Mutating, Phase::Validating] {
        for version in ["v1", "v1beta1"] {
            let hook = hook(phase, version);
            let Ok(answer) = read_answer(&hook, UID, &http(bytes)) else { continue };
            assert!(answer.warnings.len() <= WARNINGS_MAX, "{} warnings", answer.warnings.len());
            let Ok(Some(patch)) = answer.verdict else { continue };
            assert_eq!(phase, Phase::Mutating, "only mutating webhooks patch");
            if let Ok(patched) = apply_patch(&hook, &patch, Some(&object)) {
                let _ = decode_patched(patched, config_map);
            }
        }
    }
}

/// Fuzzes the response to a ConversionReview: the result has the same objects in the desired version.
pub(super) fn conversion_review(bytes: &[u8]) {
    let object = |version: &str, name: &str| {
        json!({"apiVersion": format!("x.dev/{version}"), "kind": "Dog",
            "metadata": {"name": name, "namespace": "n", "uid": name, "labels": {"a": "b"}}, "spec": {"a": 1}})
    };
    for version in [ReviewVersion::V1, ReviewVersion::V1Beta1] {
        let batch = Batch::List { api_version: "x.dev/v1", kind: "DogList" };
        let several = vec![object("v1", "a"), object("v2", "b"), object("v1", "c")];
        for (batch, objects) in [(Batch::Single, vec![object("v1", "a")]), (batch, several)] {
            let review = Review::new(version, "x.dev/v2", batch, objects.clone());
            let Ok(converted) = review.finish(UID, &http(bytes)) else { continue };
            assert_eq!(converted.len(), objects.len());
            for (after, before) in converted.iter().zip(&objects) {
                assert_eq!((&after["apiVersion"], &after["kind"]), (&json!("x.dev/v2"), &json!("Dog")));
                for member in ["name", "namespace", "uid"] {
                    assert_eq!(after["metadata"][member], before["metadata"][member], "{member}");
                }
            }
        }
    }
}

/// Fuzzes a line as the path of a printer column, and the rest as the object.
pub(super) fn json_path(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (path, object) = text.split_once('\n').unwrap_or((&text, ""));
    let object = serde_json::from_str(object).unwrap_or_else(|_| Dice(bytes).json(5));
    let types = ["string", "integer", "number", "boolean", "date", "other"];
    let own = types.map(|kind| json!({"name": kind, "type": kind, "jsonPath": path}));
    let columns = columns::of_version(&json!({"additionalPrinterColumns": own}));
    assert!(matches!(columns.len(), 1 | 7), "a path is readable for all types or for none");
    let cells = columns::cells(&columns, &object, Timestamp::UNIX_EPOCH);
    assert_eq!(cells.len(), columns.len());
    assert_eq!(columns::cells(&columns, &object, Timestamp::UNIX_EPOCH), cells, "a cell is a function");
}
