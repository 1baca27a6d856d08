//! Table columns of events, in core and events.k8s.io.
//!
//! Follows `printEvent`.

use super::text::{int, of, or};
use super::{Column, NAME, Printer, name, printer, since, text};
use jiff::Timestamp;
use serde_json::Value;

const COLUMNS: &[Column] = &[
    text("Last Seen", "Time since the last occurrence."),
    text("Type", "Normal or Warning."),
    text("Reason", "Reason of the event."),
    text("Object", "Object of the event."),
    text("Subobject", "Field path in the object.").wide(),
    text("Source", "Component that reported the event.").wide(),
    text("Message", "Description of the event."),
    text("First Seen", "Time since the first occurrence.").wide(),
    text("Count", "Number of occurrences.").wide(),
    Column { priority: 1, ..NAME },
];

pub(crate) const CORE: Printer = printer(COLUMNS, |event, now| {
    let shape = EventMembers {
        object: "involvedObject",
        message: "message",
        controller: "reportingComponent",
        prefix: "",
    };
    cells(event, now, &shape)
});

pub(crate) const EVENT: Printer = printer(COLUMNS, |event, now| {
    let shape = EventMembers {
        object: "regarding",
        message: "note",
        controller: "reportingController",
        prefix: "deprecated",
    };
    cells(event, now, &shape)
});

/// Member names of an event in one of the two APIs.
struct EventMembers {
    object: &'static str,
    message: &'static str,
    controller: &'static str,
    /// Prefix of the deprecated members, whose names then start with a capital.
    prefix: &'static str,
}

impl EventMembers {
    fn old<'e>(&self, event: &'e Value, member: &str) -> &'e Value {
        if self.prefix.is_empty() {
            return &event[member];
        }
        let (first, rest) = member.split_at(1);
        &event[format!("{}{}{rest}", self.prefix, first.to_uppercase())]
    }
}

fn cells(event: &Value, now: Timestamp, shape: &EventMembers) -> Vec<Value> {
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

fn source(event: &Value, shape: &EventMembers) -> String {
    let old = shape.old(event, "source");
    let component = or(&old["component"], of(&event[shape.controller]));
    let host = or(&old["host"], of(&event["reportingInstance"]));
    if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") }
}
