//! Tests with Rust types: the API server accepts and returns what serde writes, and the schema refuses what
//! serde refuses.

use super::super::{SchemaError, SchemaProblem, structural};
use super::{accepted, store};
use k8s_openapi::api::core::v1::{PodTemplateSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, from_value, json, to_value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// Asserts that `valid` values survive the API server, and that the API server and serde refuse each of
/// `invalid`.
fn check<T: Serialize + DeserializeOwned + JsonSchema + PartialEq + Debug>(
    valid: impl IntoIterator<Item = T>,
    invalid: impl IntoIterator<Item = Value>,
) {
    let tree = accepted(structural::<T>().unwrap());
    for value in valid {
        let stored =
            store(&tree, to_value(&value).unwrap()).unwrap_or_else(|error| panic!("{value:?}: {error}"));
        assert_eq!(from_value::<T>(stored).unwrap(), value);
    }
    for value in invalid {
        assert!(from_value::<T>(value.clone()).is_err(), "serde takes {value}");
        assert!(store(&tree, value.clone()).is_err(), "the API server takes {value}");
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Colour {
    /// Like a rose.
    Red,
    Green,
}

fn default_level() -> u8 {
    7
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Plain {
    text: String,
    letter: char,
    is_on: bool,
    small: i8,
    byte: u8,
    word: u32,
    long: u64,
    signed: i64,
    half: f32,
    #[serde(default = "default_level")]
    level: u8,
    #[serde(default)]
    absent: Option<String>,
    null: Option<Vec<Option<i32>>>,
    colour: Colour,
    maybe_colour: Option<Colour>,
    maybe_colours: Vec<Option<Colour>>,
    tags: BTreeSet<String>,
    labels: BTreeMap<String, String>,
    by_number: BTreeMap<u16, Colour>,
    by_colour: BTreeMap<Colour, i32>,
    pair: (i32, i32),
    triple: [String; 3],
    anything: Value,
    everything: serde_json::Map<String, Value>,
    address: std::net::IpAddr,
    port: Option<IntOrString>,
    boxed: Box<Option<Colour>>,
}

fn plain() -> Plain {
    Plain {
        text: "a".into(),
        letter: 'ä',
        is_on: true,
        small: -128,
        byte: 255,
        word: u32::MAX,
        long: 1 << 40,
        signed: i64::MIN,
        half: 0.5,
        level: 7,
        absent: None,
        null: None,
        colour: Colour::Red,
        maybe_colour: None,
        maybe_colours: vec![None, Some(Colour::Green)],
        tags: BTreeSet::from(["a".into(), "b".into()]),
        labels: BTreeMap::from([("k".into(), "v".into())]),
        by_number: BTreeMap::from([(1, Colour::Red)]),
        by_colour: BTreeMap::from([(Colour::Green, 1)]),
        pair: (1, 2),
        triple: ["a".into(), "b".into(), "c".into()],
        anything: json!({"deep": [1, "x", {"y": null}]}),
        everything: from_value(json!({"k": {"v": [1]}})).unwrap(),
        address: "::1".parse().unwrap(),
        port: Some(IntOrString::Int(80)),
        boxed: Box::new(Some(Colour::Red)),
    }
}

#[test]
fn plain_fields_round_trip_through_the_api_server() {
    let base = to_value(plain()).unwrap();
    let with = |field: &str, value: Value| {
        let mut spec = base.clone();
        spec[field] = value;
        spec
    };
    let other = Plain {
        null: Some(vec![None, Some(1)]),
        maybe_colour: Some(Colour::Green),
        port: Some(IntOrString::String("http".into())),
        boxed: Box::new(None),
        ..plain()
    };
    check(
        [plain(), other],
        [
            with("text", json!(1)),
            with("letter", json!("ab")),
            with("small", json!(128)),
            with("byte", json!(-1)),
            with("word", json!(1_u64 << 32)),
            with("long", json!(-1)),
            with("colour", json!("blue")),
            with("maybeColour", json!("blue")),
            with("maybeColours", json!(["blue"])),
            with("tags", json!([1])),
            with("labels", json!({"k": 1})),
            with("byNumber", json!({"1": "blue"})),
            with("pair", json!([1])),
            with("triple", json!(["a"])),
            with("port", json!(true)),
        ],
    );
}

#[test]
fn defaults_of_serde_are_those_of_the_schema() {
    let tree = accepted(structural::<Plain>().unwrap());
    let mut spec = to_value(plain()).unwrap();
    spec.as_object_mut().unwrap().remove("level");
    assert_eq!(store(&tree, spec).unwrap()["level"], 7);
}

#[test]
fn texts_of_types_fields_and_values_are_descriptions() {
    /// A lamp.
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Lamp {
        /// Its colour.
        colour: Colour,
    }
    let schema = to_value(structural::<Lamp>().unwrap()).unwrap();
    assert_eq!(schema["description"], "A lamp.");
    assert_eq!(schema["properties"]["colour"]["description"], "Its colour.\n\n- `red`: Like a rose.");
    assert_eq!(schema["properties"]["colour"]["enum"], json!(["green", "red"]));
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Named {
    Every { seconds: u32, jitter: Option<u32> },
    On(Vec<String>),
    Never {},
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Tagged {
    Disk { path: String, size: i64 },
    Net { address: String, size: Option<i64> },
    Plain(Inner),
    None,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Inner {
    depth: i32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "value")]
enum Adjacent {
    Size { width: i32 },
    Point { x: i32, y: i32 },
    Nothing,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Untagged {
    Url { url: String },
    Service { name: String, port: Option<i32> },
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Amount {
    Count(i32),
    Percent(String),
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Enums {
    named: Named,
    tagged: Vec<Tagged>,
    adjacent: Option<Adjacent>,
    untagged: Option<Untagged>,
    amount: Amount,
    outcome: Result<i32, String>,
}

#[test]
fn enums_with_data_round_trip_in_every_representation() {
    let enums = || Enums {
        named: Named::Every { seconds: 5, jitter: None },
        tagged: vec![
            Tagged::Disk { path: "/".into(), size: 1 },
            Tagged::Net { address: "a".into(), size: None },
            Tagged::Plain(Inner { depth: 1 }),
            Tagged::None,
        ],
        adjacent: Some(Adjacent::Size { width: 1 }),
        untagged: Some(Untagged::Url { url: "u".into() }),
        amount: Amount::Count(1),
        outcome: Ok(1),
    };
    let second = Enums {
        named: Named::On(vec!["monday".into()]),
        adjacent: Some(Adjacent::Point { x: 1, y: 2 }),
        untagged: Some(Untagged::Service { name: "s".into(), port: Some(1) }),
        amount: Amount::Percent("5%".into()),
        outcome: Err("no".into()),
        ..enums()
    };
    let third =
        Enums { named: Named::Never {}, adjacent: Some(Adjacent::Nothing), untagged: None, ..enums() };
    let base = to_value(enums()).unwrap();
    let with = |field: &str, value: Value| {
        let mut spec = base.clone();
        spec[field] = value;
        spec
    };
    check(
        [enums(), second, third],
        [
            with("named", json!({})),
            with("named", json!({"every": {"seconds": 1}, "on": []})),
            with("named", json!({"every": {"jitter": 1}})),
            with("named", json!("never")),
            with("tagged", json!([{"type": "disk", "path": "/"}])),
            with("tagged", json!([{"type": "tape"}])),
            with("tagged", json!([{"path": "/", "size": 1}])),
            with("adjacent", json!({"kind": "Size", "value": {"x": 1, "y": 1}})),
            with("adjacent", json!({"kind": "Point", "value": {"x": 1}})),
            with("untagged", json!({})),
            with("untagged", json!({"port": 1})),
            with("amount", json!(true)),
            with("outcome", json!({})),
        ],
    );
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Flat {
    name: String,
    #[serde(flatten)]
    inner: Inner,
    #[serde(flatten)]
    named: Named,
    #[serde(flatten)]
    tagged: Tagged,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Open {
    name: String,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[test]
fn flattened_types_round_trip() {
    let flat = |named, tagged| Flat { name: "a".into(), inner: Inner { depth: 1 }, named, tagged };
    check(
        [
            flat(Named::On(Vec::new()), Tagged::None),
            flat(Named::Never {}, Tagged::Disk { path: "/".into(), size: 1 }),
        ],
        [
            json!({"name": "a", "on": [], "type": "none"}),
            json!({"name": "a", "depth": 1, "type": "none"}),
            json!({"name": "a", "depth": 1, "on": []}),
        ],
    );
    let rest = BTreeMap::from([("x".into(), json!({"y": 1})), ("z".into(), json!([1]))]);
    check([Open { name: "a".into(), rest }], [json!({"x": 1})]);
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct OfKubernetes {
    template: PodTemplateSpec,
    resources: Option<ResourceRequirements>,
    conditions: Vec<Condition>,
}

#[test]
fn types_of_kubernetes_have_structural_schemas() {
    let spec = json!({
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i",
            "ports": [{"containerPort": 80}], "livenessProbe": {"httpGet": {"port": "http"}}}]}},
        "resources": {"limits": {"cpu": "1"}},
        "conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    check(
        [from_value::<OfKubernetes>(spec).unwrap()],
        [json!({"template": {}, "conditions": [{"type": "Ready"}]})],
    );
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Tree {
    children: Vec<Tree>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
enum Mixed {
    Unit,
    Data { a: i32 },
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Holder<T> {
    field: T,
}

#[test]
fn types_without_a_structural_schema_are_refused_with_the_field_and_a_fix() {
    let problem = |result: Result<_, SchemaError>| {
        let error = result.expect_err("there is no such schema");
        (error.path(), error.problem().clone(), error.to_string())
    };
    let (path, found, text) = problem(structural::<Holder<Tree>>());
    assert_eq!((path.as_str(), found), ("field.children[]", SchemaProblem::Recursive("Tree".into())));
    assert!(text.starts_with("field.children[]: the type Tree contains itself"), "{text}");
    assert_eq!(problem(structural::<Tree>()).1, SchemaProblem::Recursive("Tree".into()));
    let (path, found, text) = problem(structural::<Holder<Mixed>>());
    assert_eq!((path.as_str(), found), ("field", SchemaProblem::Types("string", "object")));
    assert!(text.contains("`Variant {}`"), "{text}");
    assert_eq!(problem(structural::<Holder<(i32, String)>>()).1, SchemaProblem::Tuple);
    assert_eq!(problem(structural::<Holder<()>>()).1, SchemaProblem::Never);
}
