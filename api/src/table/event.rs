//! Rows of events, in both their shapes.

use jiff::Timestamp;
use serde_json::Value;

use super::text::{int, of, or};
use super::{Column, NAME, Printer, name, printer, since, text};

const COLUMNS: &[Column] = &[
    text("Last Seen", "Time since it happened last."),
    text("Type", "Normal or Warning."),
    text("Reason", "What happened, in one word."),
    text("Object", "Object it happened to."),
    text("Subobject", "Part of that object.").wide(),
    text("Source", "Component that saw it.").wide(),
    text("Message", "What happened."),
    text("First Seen", "Time since it happened first.").wide(),
    text("Count", "How often it happened.").wide(),
    Column { priority: 1, ..NAME },
];

pub(super) const CORE: Printer = printer(COLUMNS, |event, now| {
    let shape =
        Shape { object: "involvedObject", message: "message", controller: "reportingComponent", prefix: "" };
    cells(event, now, &shape)
});

pub(super) const EVENT: Printer = printer(COLUMNS, |event, now| {
    let shape = Shape {
        object: "regarding",
        message: "note",
        controller: "reportingController",
        prefix: "deprecated",
    };
    cells(event, now, &shape)
});

/// Where the two shapes keep what they have in common.
struct Shape {
    object: &'static str,
    message: &'static str,
    controller: &'static str,
    /// In front of the members of the old shape, which then start with a capital.
    prefix: &'static str,
}

impl Shape {
    fn old<'e>(&self, event: &'e Value, member: &str) -> &'e Value {
        if self.prefix.is_empty() {
            return &event[member];
        }
        let (first, rest) = member.split_at(1);
        &event[format!("{}{}{rest}", self.prefix, first.to_uppercase())]
    }
}

fn cells(event: &Value, now: Timestamp, shape: &Shape) -> Vec<Value> {
    let first =
        Some(shape.old(event, "firstTimestamp")).filter(|t| t.is_string()).unwrap_or(&event["eventTime"]);
    let series = &event["series"];
    let (last, count) = if series.is_object() {
        (&series["lastObservedTime"], int(&series["count"]))
    } else {
        let last = Some(shape.old(event, "lastTimestamp")).filter(|t| t.is_string()).unwrap_or(first);
        (last, int(shape.old(event, "count")).max(1))
    };
    let object = &event[shape.object];
    let kind = of(&object["kind"]).to_lowercase();
    let target = match of(&object["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        since(of(last), now).into(),
        of(&event["type"]).into(),
        of(&event["reason"]).into(),
        target.into(),
        of(&object["fieldPath"]).into(),
        source(event, shape).into(),
        of(&event[shape.message]).trim().into(),
        since(of(first), now).into(),
        count.into(),
        name(event),
    ]
}

fn source(event: &Value, shape: &Shape) -> String {
    let old = shape.old(event, "source");
    let component = or(&old["component"], of(&event[shape.controller]));
    let host = or(&old["host"], of(&event["reportingInstance"]));
    if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") }
}
