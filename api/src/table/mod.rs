//! Objects as table rows, as `kubectl get` prints them: columns and cells by kind. The apiserver builds the
//! `Table` with rows and metadata. Cells are strings, integers and booleans; times become durations before
//! the given `now`.

pub(crate) mod admission;
pub(crate) mod autoscaling;
pub(crate) mod batch;
pub(crate) mod cluster;
pub(crate) mod definition;
pub(crate) mod devices;
mod duration;
pub(crate) mod event;
pub(crate) mod flowcontrol;
pub(crate) mod networking;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod pod_group;
pub(crate) mod rbac;
pub(crate) mod registration;
pub(crate) mod service;
pub(crate) mod storage;
mod text;
pub(crate) mod workload;

#[cfg(test)]
mod tests;

use crate::meta;
use crate::resource::{Column, Printer, Resource};
pub use duration::{human_duration, since};
use jiff::Timestamp;
use serde_json::Value;
use std::cmp::Reverse;

const fn column(name: &'static str, kind: &'static str, description: &'static str) -> Column {
    Column { name, kind, format: "", description, priority: 0 }
}

/// Column of texts.
const fn text(name: &'static str, description: &'static str) -> Column {
    column(name, "string", description)
}

/// Column of integers.
const fn number(name: &'static str, description: &'static str) -> Column {
    column(name, "integer", description)
}

/// Column of booleans.
const fn flag(name: &'static str, description: &'static str) -> Column {
    column(name, "boolean", description)
}

impl Column {
    /// Sets the format `name`.
    const fn name_format(mut self) -> Self {
        self.format = "name";
        self
    }

    /// Shows the column only with `-o wide`.
    const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}

const NAME: Column =
    Column { name: "Name", kind: "string", format: "name", description: "Name of the object.", priority: 0 };
const AGE: Column = text("Age", "Time since the object was created.");
const CREATED_AT: Column = Column {
    name: "Created At",
    kind: "date",
    format: "",
    description: "When the object was created.",
    priority: 0,
};
const CONTAINERS: Column = text("Containers", "Names of the containers in the template.").wide();
const IMAGES: Column = text("Images", "Images of the containers in the template.").wide();
const SELECTOR: Column = text("Selector", "Label selector.").wide();

const fn printer(columns: &'static [Column], cells: fn(&Value, Timestamp) -> Vec<Value>) -> Printer {
    Printer { columns, cells }
}

/// Columns of kinds without their own: Role, ClusterRole, LimitRange, and lists of custom resources without a
/// schema.
pub(crate) const DEFAULT: Printer = printer(&[NAME, CREATED_AT], |object, _| {
    vec![meta::name(object).into(), meta::creation_timestamp(object).into()]
});

/// Columns of an `autoscaling/v1` Scale, the body of `/scale`.
const SCALE: Printer = printer(
    &[
        text("Name", "Name of the object."),
        number("Desired", "Desired number of replicas."),
        number("Available", "Number of replicas."),
        AGE,
    ],
    |scale, now| {
        vec![
            name(scale),
            text::count(&scale["spec"]["replicas"]),
            text::count(&scale["status"]["replicas"]),
            age(scale, now),
        ]
    },
);

/// The columns and cells of a kind in the version of its row.
fn printer_of(resource: &Resource) -> &Printer {
    let rules = resource.rules;
    let later = rules.later_printer.as_ref().filter(|(since, _)| resource.minor >= *since);
    let former = || rules.former_printers.iter().find(|(until, _)| resource.minor <= *until);
    later.or_else(former).map_or(&rules.printer, |(_, printer)| printer)
}

/// All columns of a kind; clients hide those of higher priority.
pub fn columns(resource: &Resource) -> &'static [Column] {
    printer_of(resource).columns
}

/// Cells of one object, one for each column.
pub fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    (printer_of(resource).cells)(object, now)
}

/// Columns of `/scale`.
pub fn scale_columns() -> &'static [Column] {
    SCALE.columns
}

/// Cells of one Scale.
pub fn scale_cells(scale: &Value, now: Timestamp) -> Vec<Value> {
    (SCALE.cells)(scale, now)
}

/// Columns of a `Status` that is the response to a table request.
pub const STATUS_COLUMNS: &[Column] = &[
    text("Status", "Status of the request."),
    text("Reason", "Reason of the failure."),
    text("Message", "Message of the failure."),
];

/// Conditions of a row, which let clients hide finished pods. `None` for rows without.
pub fn row_conditions(resource: &Resource, object: &Value) -> Option<Value> {
    (resource.rules.row_conditions)(object)
}

fn name(object: &Value) -> Value {
    meta::name(object).into()
}

/// The name, with a mark if an annotation makes the object the default of its kind.
fn marked(object: &Value, annotations: &[&str]) -> Value {
    if is_marked(object, annotations) { marked_name(meta::name(object)) } else { name(object) }
}

fn is_marked(object: &Value, annotations: &[&str]) -> bool {
    annotations.iter().any(|key| meta::annotation(object, key) == Some("true"))
}

/// The first cell of the object that is the default of its kind.
pub fn marked_name(name: &str) -> Value {
    format!("{name} (default)").into()
}

/// Whether tables of several objects mark one of them as the default of its kind ([`default_of`]).
pub fn marks_default(resource: &Resource) -> bool {
    resource.rules.is_default.is_some_and(|(since, _)| resource.minor >= since)
}

/// The name of the object that is the default of its kind among `objects`: the newest that an annotation makes one, of equally old ones
/// the first by name. `None` for kinds without a default.
pub fn default_of<'a>(resource: &Resource, objects: impl Iterator<Item = &'a Value>) -> Option<&'a str> {
    let (_, is_default) = resource.rules.is_default.filter(|_| marks_default(resource))?;
    objects.filter(|object| is_default(object)).map(rank).min().map(|(_, name)| name)
}

/// The rank of an object among the defaults of its kind; the lowest counts.
fn rank(object: &Value) -> (Reverse<Timestamp>, &str) {
    let created = meta::parse_time(meta::creation_timestamp(object)).unwrap_or_default();
    (Reverse(created), meta::name(object))
}

fn age(object: &Value, now: Timestamp) -> Value {
    since(meta::creation_timestamp(object), now).into()
}
