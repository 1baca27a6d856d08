//! Traces of SimKube, of version 2: the owners of pods that were applied and deleted in each second. They have neither nodes nor pods.

use super::super::UnusableSource;
use super::{ObjectChange, TimedChange, malformed, message_pack};
use serde::Deserialize;
use serde_json::Value;

/// The program in the provenance of its changes.
pub(super) const PROGRAM: &str = "simkube";

/// The version of traces that is read.
const VERSION: u64 = 2;

#[derive(Deserialize)]
struct Trace {
    events: Vec<TraceEvent>,
}

#[derive(Deserialize)]
struct TraceEvent {
    /// Seconds since 1970.
    ts: i64,
    #[serde(default)]
    applied_objs: Vec<Value>,
    #[serde(default)]
    deleted_objs: Vec<Value>,
}

/// Whether bytes begin as a SimKube trace does: with a MessagePack map of at most 15 members, the first key of which is a string. No
/// UTF-8 text begins with such a byte.
pub(in crate::import) fn is_message_pack(bytes: &[u8]) -> bool {
    matches!(bytes, [0x81..=0x8f, 0xa1..=0xbf | 0xd9, ..])
}

/// Reads a trace as a document.
///
/// # Errors
/// The bytes are not MessagePack, or no trace of this version.
pub(in crate::import) fn read(bytes: &[u8]) -> Result<Value, UnusableSource> {
    let what = "a trace of SimKube";
    let trace = message_pack::decode(bytes).map_err(|error| malformed(what, error))?;
    match (trace.get("version").and_then(Value::as_u64), is_trace(&trace)) {
        (Some(VERSION), true) => Ok(trace),
        (Some(version), true) => Err(malformed(what, format!("version {version} is not {VERSION}"))),
        _ => Err(malformed(what, "it has no version and no events")),
    }
}

/// Whether a document is a trace.
pub(in crate::import) fn is_trace(document: &Value) -> bool {
    let has = |member: &str| document.get(member).is_some();
    has("version") && document.get("events").is_some_and(Value::is_array) && !has("apiVersion")
}

/// The changes of a trace, in its order.
///
/// # Errors
/// A member is of another type.
pub(super) fn changes(trace: Value) -> Result<Vec<TimedChange>, UnusableSource> {
    let Trace { events } =
        serde_json::from_value(trace).map_err(|error| malformed("a trace of SimKube", error))?;
    let mut changes = Vec::new();
    for TraceEvent { ts, applied_objs, deleted_objs } in events {
        let time_us = ts.saturating_mul(1_000_000);
        let applied = applied_objs.into_iter().map(ObjectChange::Put);
        let all = applied.chain(deleted_objs.into_iter().map(ObjectChange::Delete));
        changes.extend(all.map(|change| TimedChange { time_us, change }));
    }
    Ok(changes)
}
