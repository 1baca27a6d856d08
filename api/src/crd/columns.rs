//! Table columns of custom resources: columns of a version (`additionalPrinterColumns`) and cells of an
//! object.

use super::go;
use super::jsonpath::JsonPath;
use crate::object::{int, list, text};
use crate::{meta, table};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Column of a custom kind's table, with the fields of `columnDefinitions`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectColumn {
    /// Header; kubectl prints it in capitals.
    pub name: String,
    /// OpenAPI type of the cells.
    #[serde(rename = "type")]
    pub kind: String,
    /// OpenAPI format; `name` marks the object's name.
    pub format: String,
    /// Description of the cells.
    pub description: String,
    /// Priority: 0 is always shown, higher ones only with `-o wide`.
    pub priority: i64,
    /// Path of the value; `None` for the object's name.
    #[serde(skip)]
    path: Option<JsonPath>,
}

const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// Columns of a version: `Name`, then those of `additionalPrinterColumns`, or `Age` if it declares none. A
/// column with a malformed path ends the list.
#[must_use]
pub fn of_version(version: &Value) -> Arc<[ObjectColumn]> {
    let name = ObjectColumn {
        name: "Name".to_owned(),
        kind: "string".to_owned(),
        format: "name".to_owned(),
        description: NAME_DESCRIPTION.to_owned(),
        priority: 0,
        path: None,
    };
    let mut columns = vec![name];
    match list(&version["additionalPrinterColumns"]) {
        [] => columns.extend(column(&json!({"name": "Age", "type": "date", "description": AGE_DESCRIPTION,
            "jsonPath": ".metadata.creationTimestamp"}))),
        own => columns.extend(own.iter().map_while(column)),
    }
    columns.into()
}

fn column(column: &Value) -> Option<ObjectColumn> {
    let path = text(&column["jsonPath"]);
    let described = text(&column["description"]);
    let default = || format!("Custom resource definition column (in JSONPath format): {path}");
    Some(ObjectColumn {
        name: text(&column["name"]).to_owned(),
        kind: text(&column["type"]).to_owned(),
        format: text(&column["format"]).to_owned(),
        description: if described.is_empty() { default() } else { described.to_owned() },
        priority: int(&column["priority"]),
        path: Some(JsonPath::parse(path)?),
    })
}

/// Cells of one object, one for each column. Times of type `date` are durations before `now`; missing values
/// are null.
#[must_use]
pub fn cells(columns: &[ObjectColumn], object: &Value, now: Timestamp) -> Vec<Value> {
    let cell = |column: &ObjectColumn| match &column.path {
        None => meta::name(object).into(),
        Some(path) => path.first(object).map_or(Value::Null, |value| cell(&column.kind, value, now)),
    };
    columns.iter().map(cell).collect()
}

/// The cell for a value in a column of type `kind`; null if the type does not fit.
fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", Value::Null) => json!("<no value>"),
        ("string", Value::Object(_) | Value::Array(_)) => go::json(value).into(),
        ("string", value) => go::plain(value).into(),
        ("integer", Value::Number(own)) => integer(own),
        ("number", Value::Number(own)) => number(own),
        ("boolean", Value::Bool(own)) => (*own).into(),
        ("date", Value::String(own)) => date(own, now).into(),
        _ => Value::Null,
    }
}

/// Truncates a number to an integer.
fn integer(own: &serde_json::Number) -> Value {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a fraction is cut, and what no integer holds becomes the nearest"
    )]
    let whole = |own: f64| own.trunc() as i64;
    own.as_i64().or_else(|| own.as_f64().map(whole)).map_or(Value::Null, Value::from)
}

/// Formats a floating-point number; whole ones have no fraction.
fn number(own: &serde_json::Number) -> Value {
    match (go::whole(own), own.as_f64()) {
        (Some(whole), _) => whole.into(),
        (None, Some(float)) => json!(float),
        (None, None) => Value::Null,
    }
}

/// Human-readable duration between a time and `now`.
fn date(moment: &str, now: Timestamp) -> String {
    match moment {
        "" | "null" => "<unknown>".to_owned(),
        moment if meta::parse_time(moment).is_none() => "<invalid>".to_owned(),
        moment => table::since(moment, now),
    }
}
