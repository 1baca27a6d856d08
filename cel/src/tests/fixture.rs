//! An object type with fields of all kinds, a document of it, and environments for tests.

use crate::{
    Env, EvalError, FieldShape, Library, ListKind, ObjectShape, Shape, SizeEstimate, SizeProvider, Type,
    TypeProvider, Val,
};
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// Bytes of the largest request, the bound of strings and lists without a bound of their own.
const REQUEST: u64 = 3 * 1024 * 1024;

fn fields(list: &[(&str, Shape)]) -> Vec<(Box<str>, FieldShape)> {
    let field = |(name, shape): &(&str, Shape)| {
        (Box::from(*name), FieldShape { key: Box::from(*name), shape: shape.clone() })
    };
    list.iter().map(field).collect()
}

fn ordered(items: Shape) -> Shape {
    Shape::List(Arc::new(items), ListKind::Ordered)
}

pub(super) fn shape() -> ObjectShape {
    let item = [("name", Shape::String), ("value", Shape::String), ("port", Shape::Int)];
    let item = Shape::Object(Arc::new(ObjectShape::new("item", fields(&item))));
    let nested = Shape::Object(Arc::new(ObjectShape::new("nested", fields(&[("b", Shape::Int)]))));
    ObjectShape::new(
        "root",
        fields(&[
            ("replicas", Shape::Int),
            ("minReplicas", Shape::Int),
            ("maxReplicas", Shape::Int),
            ("a", Shape::Int),
            ("t", Shape::Timestamp),
            ("d", Shape::Duration),
            ("s", Shape::String),
            ("u", Shape::String),
            ("e", Shape::String),
            ("ios", Shape::Dyn),
            ("items", ordered(item)),
            ("names", ordered(Shape::String)),
            ("free", ordered(Shape::String)),
            ("nested", nested),
            ("absent", Shape::String),
            ("labels", Shape::Map(Arc::new(Shape::String))),
        ]),
    )
}

/// Provides the fixture's types and sizes.
pub(super) struct Schema(pub(super) ObjectShape);

impl Schema {
    fn find(&self, name: &str) -> Option<&ObjectShape> {
        fn within<'s>(shape: &'s ObjectShape, name: &str) -> Option<&'s ObjectShape> {
            if shape.name() == name {
                return Some(shape);
            }
            shape.fields().find_map(|(_, field)| match &field.shape {
                Shape::Object(shape) => within(shape, name),
                Shape::List(items, _) => match &**items {
                    Shape::Object(shape) => within(shape, name),
                    _ => None,
                },
                _ => None,
            })
        }
        within(&self.0, name)
    }
}

impl TypeProvider for Schema {
    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        self.find(type_name)?.field(field).map(|field| field.shape.ty())
    }

    fn has_type(&self, type_name: &str) -> bool {
        self.find(type_name).is_some()
    }

    fn is_constructible(&self, type_name: &str) -> bool {
        type_name == "nested"
    }
}

impl SizeProvider for Schema {
    fn size(&self, path: &[Arc<str>], _ty: &Type) -> Option<SizeEstimate> {
        let rest: Vec<&str> = path.get(1..)?.iter().map(|part| &**part).collect();
        let max = match rest[..] {
            [] => 0,
            ["s"] => 400,
            ["u"] => REQUEST - 2,
            ["e"] => 3,
            ["ios"] => REQUEST,
            ["items"] => 100,
            ["items", "@items", "name" | "value"] => 252,
            ["names"] => 50,
            ["names", "@items"] => 80,
            ["free"] => (REQUEST - 2) / 3,
            ["free", "@items"] => REQUEST - 2,
            ["replicas" | "minReplicas" | "maxReplicas" | "a"] => 1,
            _ => return None,
        };
        Some(SizeEstimate { min: 0, max })
    }
}

pub(super) fn document() -> Json {
    let items: Vec<_> =
        (1..=10).map(|n| json!({"name": format!("n{n:02}"), "value": "v", "port": n})).collect();
    json!({
        "replicas": 3, "minReplicas": 1, "maxReplicas": 5, "a": 1, "s": "hello world", "u": "unbounded", "e": "a",
        "ios": 5, "items": items, "names": ["aa", "bb", "cc"], "free": ["aa", "bb", "cc"], "nested": {"b": 2},
        "absent": null, "t": "2024-02-29T12:30:15.5Z", "d": "1h30m", "labels": {"k": "v", "x-y": "z"},
    })
}

/// An environment with all libraries and a variable `self` of the fixture's type.
pub(super) fn env() -> Env {
    let schema = Arc::new(Schema(shape()));
    let builder = Env::builder().types(schema).variable("self", Type::object("root"));
    let libraries = [
        Library::Optional,
        Library::TwoVariables,
        Library::Strings,
        Library::Lists,
        Library::Aggregates,
        Library::Sets,
        Library::Regex,
    ];
    libraries.into_iter().fold(builder, |builder, library| builder.library(library)).build()
}

/// An environment with all libraries and without variables.
pub(super) fn plain() -> Env {
    Library::ALL.into_iter().fold(Env::builder(), |builder, library| builder.library(library)).build()
}

/// Evaluates an expression on the document; returns the formatted value or the error, and the cost.
pub(super) fn run(text: &str) -> (Result<String, EvalError>, u64) {
    let (document, shape) = (document(), Shape::Object(Arc::new(shape())));
    let checked = env().compile(text).unwrap_or_else(|errors| panic!("{text}: {errors}"));
    let program = match checked.program() {
        Ok(program) => program,
        Err(error) => return (Err(error), 0),
    };
    let value = shape.value(&document).unwrap();
    let (value, cost) = program.eval(&[("self", value)], u64::MAX);
    (value.map(|value| show(&value)), cost)
}

/// Formats a value for comparisons.
pub(super) fn show(value: &Val<'_>) -> String {
    match value {
        Val::String(text) => format!("{:?}", &**text),
        Val::Uint(number) => format!("{number}u"),
        Val::Double(number) => format!("{number:?}"),
        Val::Bytes(bytes) => format!("b{:?}", String::from_utf8_lossy(bytes)),
        Val::List(list) => {
            let items: Vec<_> = list.iter().map(|item| show(&item.unwrap())).collect();
            format!("[{}]", items.join(", "))
        }
        Val::Map(map) => {
            let entry = |key: &Val<'_>| format!("{}: {}", show(key), show(&map.get(key).unwrap().unwrap()));
            let entries: Vec<_> = map.keys().iter().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Val::Optional(None) => "none".to_owned(),
        Val::Optional(Some(value)) => format!("some({})", show(value)),
        Val::Object(object) => {
            let names = object.names();
            let field = |name: &&str| format!("{name}: {}", show(&object.get(name).unwrap().unwrap()));
            format!("{}{{{}}}", object.type_name(), names.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        other => crate::value::text_of(other),
    }
}

/// The compile errors of an expression in the fixture's environment, formatted for users.
pub(super) fn errors(text: &str) -> String {
    match env().compile(text) {
        Ok(_) => "compiles".to_owned(),
        Err(errors) => errors.to_string(),
    }
}

/// The compile errors of an expression, each as `line:column message`.
pub(super) fn brief(text: &str) -> Vec<String> {
    match env().compile(text) {
        Ok(_) => Vec::new(),
        Err(errors) => {
            errors.entries().iter().map(|e| format!("{}:{} {}", e.line, e.column, e.message)).collect()
        }
    }
}
