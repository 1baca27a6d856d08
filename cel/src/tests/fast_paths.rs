//! The fast paths of the evaluator against its general paths: equal values, errors and costs, at every limit of cost.
//!
//! Programs evaluate macros with a node for each macro; general programs use one node for all comprehensions. Programs read fields
//! of documents in place; fields of objects that an evaluation made take the general path.

use super::fixture::show;
use crate::{
    Env, EvalError, FieldShape, Library, List, ListKind, Map, Object, ObjectShape, Program, Shape, Type,
    TypeProvider, Val,
};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Arc;

fn object(name: &str, fields: &[(&str, Shape)]) -> Arc<ObjectShape> {
    let field = |(name, shape): &(&str, Shape)| {
        (Box::from(*name), FieldShape { key: Box::from(*name), shape: shape.clone() })
    };
    Arc::new(ObjectShape::new(name, fields.iter().map(field)))
}

fn list(items: Shape) -> Shape {
    Shape::List(Arc::new(items), ListKind::Ordered)
}

/// The object types of the test: an object with lists of objects.
struct Types {
    root: Arc<ObjectShape>,
    item: Arc<ObjectShape>,
    inner: Arc<ObjectShape>,
}

impl Types {
    fn new() -> Self {
        let inner = object("inner", &[("b", Shape::Int)]);
        let item = object(
            "item",
            &[
                ("name", Shape::String),
                ("port", Shape::Int),
                ("at", Shape::Timestamp),
                ("tags", list(Shape::String)),
                ("inner", Shape::Object(inner.clone())),
            ],
        );
        let root = object(
            "root",
            &[
                ("n", Shape::Int),
                ("inner", Shape::Object(inner.clone())),
                ("items", list(Shape::Object(item.clone()))),
                ("times", list(Shape::Duration)),
                ("labels", Shape::Map(Arc::new(Shape::String))),
                ("gone", Shape::String),
            ],
        );
        Self { root, item, inner }
    }

    fn find(&self, name: &str) -> Option<&ObjectShape> {
        [&self.root, &self.item, &self.inner]
            .into_iter()
            .find(|shape| shape.name() == name)
            .map(|shape| &**shape)
    }
}

impl TypeProvider for Types {
    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        self.find(type_name)?.field(field).map(|field| field.shape.ty())
    }

    fn has_type(&self, type_name: &str) -> bool {
        self.find(type_name).is_some()
    }
}

fn env() -> Env {
    let builder = Library::ALL.into_iter().fold(Env::builder(), |builder, library| builder.library(library));
    builder.types(Arc::new(Types::new())).variable("self", Type::object("root")).build()
}

/// A copy of a value without parts of documents; an error if the document does not fit its shape anywhere.
fn copied<'a>(value: &Val<'a>) -> Result<Val<'a>, EvalError> {
    Ok(match value {
        Val::List(list) => Val::list(list.iter().map(|item| copied(&item?)).collect::<Result<_, _>>()?),
        Val::Map(map) => {
            let entry = |key: Val<'a>| Ok((key.clone(), copied(&map.get(&key)?.unwrap_or(Val::Null))?));
            Val::Map(Map::new(map.keys().into_iter().map(entry).collect::<Result<Vec<_>, EvalError>>()?)?)
        }
        Val::Object(object) => {
            let mut fields = BTreeMap::new();
            for name in object.names() {
                let value = object.get(name)?.unwrap_or(Val::Null);
                fields.insert(Arc::from(name), copied(&value)?);
            }
            Val::Object(Object::Owned(Arc::from(object.type_name()), Arc::new(fields)))
        }
        other => other.clone(),
    })
}

/// Items of the document: fields are missing, `null` or of another type now and then.
fn items() -> impl Strategy<Value = Json> {
    let port = prop_oneof![
        4 => (0..4i64).prop_map(Json::from),
        1 => Just(Json::Null),
        1 => Just(json!("x")),
        1 => Just(json!(2.5)),
    ];
    let name = prop_oneof![Just("a"), Just("b"), Just("é")];
    let inner =
        prop_oneof![2 => (0..3i64).prop_map(|b| json!({"b": b})), 1 => Just(json!({})), 1 => Just(json!(7))];
    let at = prop_oneof![3 => Just("2024-02-29T00:00:00Z"), 1 => Just("never")];
    (proptest::option::weighted(0.8, port), name, inner, at, proptest::collection::vec("[ab]", 0..3))
        .prop_map(|(port, name, inner, at, tags)| {
            let mut item = json!({"name": name, "inner": inner, "at": at, "tags": tags, "undeclared": 1});
            if let Some(port) = port {
                item["port"] = port;
            }
            item
        })
}

fn documents() -> impl Strategy<Value = Json> {
    let times = proptest::collection::vec(prop_oneof![Just("1s"), Just("2m"), Just("soon")], 0..3);
    let labels = proptest::collection::btree_map("[ab]", "[ab]", 0..3);
    (0..3i64, proptest::collection::vec(items(), 0..5), times, labels).prop_map(|(n, items, times, labels)| {
        json!({"n": n, "inner": {"b": n}, "items": items, "times": times, "labels": labels})
    })
}

/// Conditions on an item `i` and on the whole document.
const PREDICATES: [&str; 16] = [
    "i.port > 1",
    "i.inner.b >= self.n",
    "has(i.port)",
    "has(i.inner.b)",
    "!has(i.tags)",
    "i.name == 'a'",
    "i.at < timestamp('2025-01-01T00:00:00Z') && i.at == i.at",
    "i.tags.exists(x, x == i.name)",
    "i.port / i.inner.b > 0",
    "i.?port.orValue(3) > 2",
    "self.labels['a'] == i.name",
    "i.tags[0] == 'a'",
    "self.items.exists_one(j, j.name == i.name)",
    "self.gone == i.name",
    "has(self.gone) || self.inner.b > 0",
    "i.tags.map(x, x + i.name).size() < self.n",
];

/// Conditions with the placeholder `P` for a predicate.
const CONDITIONS: [&str; 20] = [
    "self.items.all(i, P)",
    "self.items.exists(i, P)",
    "self.items.exists_one(i, P)",
    "self.items.all(k, i, k < 2 || P)",
    "self.items.exists_one(k, i, P && k >= 0)",
    "self.items.filter(i, P).size() > 1",
    "self.items.map(i, i.port).size() < 2",
    "self.items.map(i, P, i.name).size() == 1",
    "self.items.map(i, P).exists(y, y)",
    "self.items.map(i, [i.port]).all(l, l[0] > 0)",
    "self.items.map(i, P, 1) == [1, 1]",
    "self.items.transformList(k, i, P, i.port + k).size() < 3",
    "self.items.transformMap(k, i, P, i.name).size() == 2",
    "self.items.transformMapEntry(k, i, {i.name: i.port}).size() > 0",
    "self.times.all(t, t > duration('1s') || t < duration('1h'))",
    "self.labels.all(k, k != 'a') || self.labels.exists(k, v, k == v)",
    "self.inner.b > self.n || has(self.inner.b)",
    "(self.n > 1 ? self.items[0] : self.items[1]).port > 0",
    "cel.bind(l, self.items, l.all(i, P) && l.size() > 1)",
    "[1, 2].map(x, 1 / (x - self.n)).size() == 2",
];

fn rules() -> impl Strategy<Value = String> {
    let condition = (0..CONDITIONS.len(), 0..PREDICATES.len()).prop_map(|(condition, predicate)| {
        CONDITIONS[condition].replace('P', &format!("({})", PREDICATES[predicate]))
    });
    (condition.clone(), condition, 0..4).prop_map(|(a, b, form)| match form {
        0 => a,
        1 => format!("({a}) || ({b})"),
        2 => format!("({a}) && !({b})"),
        _ => format!("({a}) ? ({b}) : ({a})"),
    })
}

/// The value or the error of an evaluation, and the cost.
fn outcome<'a>(program: &'a Program, value: &Val<'a>, limit: u64) -> (Result<String, EvalError>, u64) {
    let (value, cost) = program.eval(&[("self", value.clone())], limit);
    (value.map(|value| show(&value)), cost)
}

#[test]
fn every_macro_has_the_value_and_the_cost_of_its_comprehension() {
    let (env, shape) = (env(), Shape::Object(Types::new().root));
    let item =
        |name: &str, port: i64| json!({"name": name, "port": port, "inner": {"b": port}, "tags": ["a"]});
    let document = json!({"n": 1, "inner": {"b": 2}, "items": [item("a", 1), item("b", 2)], "times": ["1s"],
        "labels": {"a": "a"}});
    let value = shape.value(&document).unwrap();
    for (condition, predicate) in CONDITIONS.iter().flat_map(|c| PREDICATES.iter().map(move |p| (c, p))) {
        let text = condition.replace('P', predicate);
        let checked = env.compile(&text).unwrap_or_else(|errors| panic!("{text}: {errors}"));
        let (program, general) = (checked.program().unwrap(), checked.general_program().unwrap());
        assert_eq!(outcome(&program, &value, u64::MAX), outcome(&general, &value, u64::MAX), "{text}");
    }
}

#[test]
fn loops_of_macros_are_recognised() {
    let env = env();
    let rows = [
        ("self.items.all(i, true)", "Quantifier("),
        ("self.items.exists(k, i, true)", "Quantifier("),
        ("self.items.exists_one(i, true)", "ExistsOne("),
        ("self.items.map(i, i.port)", "Collector("),
        ("self.items.map(i, 1)", "Collector("),
        ("self.items.map(i, i.port > 1, i.port)", "Collector("),
        ("self.items.filter(i, i.port > 1)", "Collector("),
        ("self.items.transformList(k, i, i.port)", "Collector("),
        ("self.items.transformMap(k, i, i.port)", "Insert("),
        ("self.items.transformMapEntry(k, i, k > 0, {k: i})", "Insert("),
    ];
    for (text, node) in rows {
        let checked = env.compile(text).unwrap();
        let (program, general) = (checked.program().unwrap(), checked.general_program().unwrap());
        assert!(format!("{program:?}").contains(node), "{text}: {program:?}");
        assert!(!format!("{general:?}").contains(node), "{text}");
    }
}

#[test]
fn a_field_is_found_in_objects_with_different_members_and_by_threads_at_once() {
    let (env, shape) = (env(), Shape::Object(Types::new().root));
    let program = env.compile("self.items.map(i, has(i.port), i.port).sum()").unwrap().program().unwrap();
    let many: BTreeMap<String, u8> = (0..40).map(|n| (format!("m{n:02}"), 0)).collect();
    let mut large = json!(many);
    large["port"] = json!(100);
    let items =
        [json!({"port": 1}), json!({"a": 0, "port": 10}), large, json!({}), json!({"zone": 0, "port": 1000})];
    std::thread::scope(|scope| {
        for shift in 0..items.len() {
            let (program, shape, mut items) = (&program, &shape, items.clone());
            scope.spawn(move || {
                items.rotate_left(shift);
                let document = json!({"items": items});
                for _ in 0..100 {
                    let found = outcome(program, &shape.value(&document).unwrap(), u64::MAX).0;
                    assert_eq!(found, Ok("1111".to_owned()));
                }
            });
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fast_paths_have_the_values_and_the_costs_of_general_paths(rule in rules(), document in documents()) {
        let checked = env().compile(&rule).unwrap();
        let (program, general) = (checked.program().unwrap(), checked.general_program().unwrap());
        let shape = Shape::Object(Types::new().root);
        let in_place = shape.value(&document).unwrap();
        let (_, full) = outcome(&general, &in_place, u64::MAX);
        let limits = [u64::MAX, full].into_iter().chain((0..full).step_by(3));
        for limit in limits {
            let wanted = outcome(&general, &in_place, limit);
            prop_assert_eq!(&outcome(&program, &in_place, limit), &wanted, "{} on {} at {}", rule, document, limit);
            // Only documents that fit their shape everywhere can be copied.
            if let Ok(copy) = copied(&in_place) {
                prop_assert_eq!(&outcome(&program, &copy, limit), &wanted, "{} on a copy of {} at {}", rule, document, limit);
            }
        }
    }
}

#[test]
fn copies_of_documents_hold_no_part_of_the_document() {
    let document = json!({"items": [{"name": "a"}], "labels": {"a": "b"}});
    let shape = Shape::Object(Types::new().root);
    let Val::Object(copy) = copied(&shape.value(&document).unwrap()).unwrap() else { panic!("no object") };
    assert!(matches!(copy.get("items"), Ok(Some(Val::List(List::Owned(_))))));
    assert!(matches!(copy.get("labels"), Ok(Some(Val::Map(Map::Owned(_))))));
}
