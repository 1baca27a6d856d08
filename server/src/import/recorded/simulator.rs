//! Records of kube-scheduler-simulator: a line of JSON for each event, with the time at which it was seen.

use super::super::UnusableSource;
use super::{ObjectChange, TimedChange, malformed};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// The program in the provenance of its changes.
pub(super) const PROGRAM: &str = "kube-scheduler-simulator";

#[derive(Deserialize)]
struct Record {
    time: Timestamp,
    event: RecordedEvent,
    resource: Value,
}

#[derive(Clone, Copy, Deserialize)]
enum RecordedEvent {
    Add,
    Update,
    Delete,
}

/// Whether a document is an event of the simulator.
pub(super) fn is_record(document: &Value) -> bool {
    ["time", "event", "resource"].iter().all(|member| document.get(member).is_some())
}

/// The change of a document.
///
/// # Errors
/// A member is of another type, or the event is no known one.
pub(super) fn change(document: Value) -> Result<TimedChange, UnusableSource> {
    let Record { time, event, resource } = serde_json::from_value(document)
        .map_err(|error| malformed("a record of kube-scheduler-simulator", error))?;
    let change = match event {
        RecordedEvent::Add | RecordedEvent::Update => ObjectChange::Put(resource),
        RecordedEvent::Delete => ObjectChange::Delete(resource),
    };
    Ok(TimedChange { time_us: time.as_microsecond(), change })
}
