//! Recordings of other simulators as a timeline: objects at a start, and changes with times. `kwok`, `simulator` and `simkube` recognize
//! the documents of one program each; `timeline` makes a history of them. Pure, but for the identifiers of objects that have none.

mod kwok;
mod message_pack;
pub(super) mod simkube;
mod simulator;
mod timeline;

use super::UnusableSource;
use super::objects::ObjectSet;
use jiff::Timestamp;
use serde_json::Value;
pub(super) use timeline::Timeline;

/// A change of one object at a time.
#[derive(Clone, Debug, PartialEq)]
struct TimedChange {
    /// Microseconds since 1970.
    time_us: i64,
    change: ObjectChange,
}

/// What happened to an object.
#[derive(Clone, Debug, PartialEq)]
enum ObjectChange {
    /// It was created, or has this new state.
    Put(Value),
    /// This patch was applied to the object of that kind, namespace and name: a strategic merge patch, for custom kinds a merge patch.
    Patch { object: Value, patch: Value },
    /// The object of that kind, namespace and name was deleted. Without a kind it is the one of that namespace and name.
    Delete(Value),
}

impl ObjectChange {
    /// The object, or the part of it that names it.
    fn object(&self) -> &Value {
        match self {
            Self::Put(object) | Self::Patch { object, .. } | Self::Delete(object) => object,
        }
    }
}

impl Timeline {
    /// The timeline of a source's documents; `None` if they are plain manifests. Relative times begin at `start`.
    ///
    /// # Errors
    /// A document is one of a recording, and malformed.
    pub(super) fn of(
        documents: &mut Vec<Value>,
        objects: &mut ObjectSet,
        start: Timestamp,
    ) -> Result<Option<Self>, UnusableSource> {
        let is_recording = |document: &Value| kwok::is_patch(document) || simulator::is_record(document);
        if !documents.iter().any(|document| is_recording(document) || simkube::is_trace(document)) {
            documents.iter_mut().for_each(|document| kwok::resolve_times(document, start));
            return Ok(None);
        }
        for document in &*documents {
            kwok::created(document).into_iter().for_each(|object| objects.define(object));
        }
        let mut timeline = Self::default();
        for mut document in std::mem::take(documents) {
            kwok::resolve_times(&mut document, start);
            if kwok::is_patch(&document) {
                timeline.add(kwok::PROGRAM, kwok::change(document, objects, start)?);
            } else if simulator::is_record(&document) {
                timeline.add(simulator::PROGRAM, simulator::change(document)?);
            } else if simkube::is_trace(&document) {
                for change in simkube::changes(document)? {
                    timeline.add(simkube::PROGRAM, change);
                }
            } else {
                timeline.begin_with(document);
            }
        }
        timeline.arrange(objects);
        Ok(Some(timeline))
    }
}

/// Says which document of a recording is malformed.
fn malformed(what: &str, reason: impl std::fmt::Display) -> UnusableSource {
    UnusableSource(format!("{what} cannot be read: {reason}"))
}
