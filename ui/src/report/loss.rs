//! What a report leaves out when it would be too large, and in which order. Pure.

use super::delta::{Edit, PathPart};
use super::limits::VALUE_BYTES;
use super::recording::{Change, ObjectBody, ObjectKey, Recording};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Something that is left out. States around changes from outside, the newest states, and who wrote what when stay in spite of [`ORDER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Loss {
    /// Managed fields of all but the newest states.
    ManagedFields,
    /// States that differ from the one before in times of heartbeats only.
    Heartbeats,
    /// States of Events before the first change from outside.
    EarlierEvents,
    /// States in namespaces where no change from outside was made, and no consequence of one.
    OtherNamespaces,
    /// States before the first change from outside.
    EarlierStates,
    /// Texts above [`VALUE_BYTES`]: their beginning stays.
    LongValues,
    /// All other states between.
    Consequences,
    /// The oldest revisions.
    Revisions,
    /// The newest states, so that rows and writes are left.
    NewestStates,
    /// States that did not come in time, or that the server refused, as those of kinds that it stores and does not serve.
    Unread,
    /// States that came after the bound of what a recording keeps.
    NotKept,
    /// What the scheduler says about pods, beyond what a file has room for, or that was not read in time.
    Attempts,
    /// Marks beyond the number that a report has.
    Marks,
}

/// What is left out in this order, until the rest is small enough. Beyond it go the oldest revisions, half of them at a time.
pub(super) const ORDER: [Loss; 7] = [
    Loss::ManagedFields,
    Loss::Heartbeats,
    Loss::EarlierEvents,
    Loss::OtherNamespaces,
    Loss::EarlierStates,
    Loss::LongValues,
    Loss::Consequences,
];

impl Loss {
    /// For people: what a number of is not in the report.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::ManagedFields => "managed fields of older states",
            Self::Heartbeats => "states that differ in times of heartbeats only",
            Self::EarlierEvents => "states of Events before the first change from outside",
            Self::OtherNamespaces => "states in namespaces that no change from outside concerned",
            Self::EarlierStates => "states before the first change from outside",
            Self::LongValues => "ends of values above 4 KiB",
            Self::Consequences => "states between, except around changes from outside",
            Self::Revisions => "oldest revisions",
            Self::NewestStates => "newest states",
            Self::Unread => "states that could not be read",
            Self::NotKept => "states beyond what a report is made of",
            Self::Attempts => "pods' scheduling attempts",
            Self::Marks => "marks",
        }
    }
}

/// A body of a recording: the number of its change, and of the object there.
pub(super) type BodyPlace = (usize, usize);

/// What decides about the bodies of a recording.
pub(super) struct Importance<'r> {
    /// The number of the first change from outside; that of no change if there is none.
    first_outside: usize,
    /// Namespaces with a change from outside or a consequence of one.
    namespaces: BTreeSet<&'r str>,
    /// The newest states of objects that still exist.
    newest: BTreeSet<BodyPlace>,
    /// States before changes from outside: with them one sees what changed.
    before_outside: BTreeSet<BodyPlace>,
}

impl<'r> Importance<'r> {
    pub(super) fn of(recording: &'r Recording) -> Self {
        let changes = &recording.changes;
        let first_outside = changes.iter().position(|change| change.is_outside).unwrap_or(0);
        let mut last: BTreeMap<&ObjectKey, BodyPlace> = BTreeMap::new();
        let (mut concerned, mut namespaces) = (BTreeSet::new(), BTreeSet::new());
        let mut before_outside = BTreeSet::new();
        for (at, change) in changes.iter().enumerate() {
            let is_concerned = change.is_outside || causes(change).any(|cause| concerned.contains(&cause));
            if is_concerned {
                concerned.insert(change.revision);
                namespaces.extend(change.objects.iter().map(|object| object.key.namespace.as_str()));
            }
            for (place, object) in change.objects.iter().enumerate() {
                let before = match object.is_deleted {
                    true => last.remove(&object.key),
                    false if object.body == ObjectBody::Absent => last.get(&object.key).copied(),
                    false => last.insert(&object.key, (at, place)),
                };
                before_outside.extend(before.filter(|_| change.is_outside));
            }
        }
        Self { first_outside, namespaces, newest: last.into_values().collect(), before_outside }
    }

    /// Whether the state at a place is the newest one of an object that still exists.
    pub(super) fn is_newest(&self, place: BodyPlace) -> bool {
        self.newest.contains(&place)
    }

    /// Why the state at a place is left out, if it is.
    pub(super) fn loss(&self, change: &Change, place: BodyPlace, losses: &[Loss]) -> Option<Loss> {
        let object = &change.objects[place.1];
        if change.is_outside || self.is_newest(place) || self.before_outside.contains(&place) {
            return None;
        }
        let is_earlier = place.0 < self.first_outside;
        losses.iter().copied().find(|loss| match loss {
            Loss::Heartbeats => is_heartbeat(&object.body),
            Loss::EarlierEvents => is_earlier && is_event(&object.key),
            Loss::OtherNamespaces => {
                !object.key.namespace.is_empty() && !self.namespaces.contains(object.key.namespace.as_str())
            }
            Loss::EarlierStates => is_earlier,
            Loss::Consequences => true,
            _ => false,
        })
    }
}

fn causes(change: &Change) -> impl Iterator<Item = i64> {
    change.line.get("c").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_i64)
}

fn is_event(key: &ObjectKey) -> bool {
    matches!(key.resource.as_str(), "events" | "events.events.k8s.io")
}

/// Whether a write changed nothing but times of heartbeats, and what every write changes.
fn is_heartbeat(body: &ObjectBody) -> bool {
    let is_time = |edit: &Edit| {
        let has =
            |name: &str| edit.path.iter().any(|part| matches!(part, PathPart::Member(own) if own == name));
        has("lastHeartbeatTime") || has("managedFields") || has("resourceVersion")
    };
    matches!(body, ObjectBody::Edits(edits) if edits.iter().all(is_time))
}

/// Removes the managed fields of an object. Whether there were any.
pub(super) fn without_managed_fields(object: &mut Value) -> bool {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    metadata.is_some_and(|metadata| metadata.remove("managedFields").is_some())
}

/// Cuts texts above [`VALUE_BYTES`]; returns how many.
pub(super) fn cut_values(value: &mut Value) -> usize {
    match value {
        Value::String(text) if text.len() > VALUE_BYTES => {
            let end = text.floor_char_boundary(VALUE_BYTES);
            *text = format!("{}… ({} bytes)", &text[..end], text.len());
            1
        }
        Value::Array(items) => items.iter_mut().map(cut_values).sum(),
        Value::Object(members) => members.values_mut().map(cut_values).sum(),
        _ => 0,
    }
}
