//! [`Recording`]: what a report is made of: the rows of one revision, the writes after it, and the states of objects between.

use super::delta::{Edit, apply, edits};
use super::facts::{Facts, Mark};
use super::limits::KEPT_BYTES;
use super::mask::{SecretValues, mask_credentials, mask_secret};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The kind whose values are never in a report.
const SECRETS: &str = "secrets";

/// The kind that the scheduler places.
const PODS: &str = "pods";

/// An object by its kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Plural, followed by the group if there is one.
    pub resource: String,
    /// Empty for kinds without namespaces.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectKey {
    /// The key in three texts at the beginning of a list, as an object of a line of `/kstore/v1/changes` has it.
    pub(super) fn of_list(parts: &Value) -> Self {
        let text = |at: usize| parts.get(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { resource: text(0), namespace: text(1), name: text(2) }
    }

    /// The key of a row of `/kstore/v1/rows`.
    pub(super) fn of_row(row: &Value) -> Self {
        let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { resource: text("k"), namespace: text("n"), name: text("m") }
    }
}

/// An object after a write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ObjectBody {
    /// It was deleted, or its state is not known.
    Absent,
    /// The whole state.
    Full(Value),
    /// What differs from the last known state.
    Edits(Vec<Edit>),
}

/// A write.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) revision: i64,
    /// The line of `/kstore/v1/changes`.
    pub(super) line: Value,
    /// Whether it is a change from outside.
    pub(super) is_outside: bool,
    pub(super) objects: Vec<ChangedObject>,
}

/// An object of a write.
#[derive(Debug)]
pub(super) struct ChangedObject {
    pub(super) key: ObjectKey,
    pub(super) is_deleted: bool,
    pub(super) body: ObjectBody,
}

/// A pod of rows or changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodOfRecording {
    /// Its name.
    pub key: ObjectKey,
    /// Whether it exists at the end, has no node, and has not ended.
    pub is_pending: bool,
}

/// What a report is made of. It is filled in this order: rows, changes, first states, and then the states after the changes, which
/// of one object are in the order of its revisions.
#[derive(Default)]
pub struct Recording {
    pub(super) from: i64,
    pub(super) kinds: Vec<Value>,
    pub(super) rows: Vec<Value>,
    pub(super) changes: Vec<Change>,
    pub(super) base: BTreeMap<ObjectKey, Value>,
    /// Places of the states that have not come yet, in `changes` and in the objects there.
    awaited: BTreeMap<(ObjectKey, i64), (usize, usize)>,
    /// Revisions at which objects were created.
    created: BTreeSet<(ObjectKey, i64)>,
    /// The newest state of each object that came, and its revision.
    last: BTreeMap<ObjectKey, (i64, Value)>,
    secrets: BTreeMap<ObjectKey, SecretValues>,
    kept_bytes: usize,
    /// Number of states that came after the bound of [`KEPT_BYTES`].
    pub(super) not_kept: usize,
    /// What is known besides objects and writes.
    pub(super) facts: Facts,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording")
            .field("from", &self.from)
            .field("changes", &self.changes.len())
            .finish_non_exhaustive()
    }
}

impl Recording {
    /// A recording that begins at a revision, with the kinds of the first line of `/kstore/v1/rows`.
    pub fn new(from: i64, kinds: Vec<Value>) -> Self {
        Self { from, kinds, ..Self::default() }
    }

    /// Adds a row of the first revision: a line of `/kstore/v1/rows`.
    pub fn row(&mut self, row: Value) {
        self.rows.push(row);
    }

    /// Adds the next write: a line of `/kstore/v1/changes`. `is_outside`: no component of the control plane wrote it, and it names no
    /// cause.
    pub fn change(&mut self, line: Value, is_outside: bool) {
        let revision = line.get("r").and_then(Value::as_i64).unwrap_or_default();
        let at = self.changes.len();
        let mut objects = Vec::new();
        for (place, parts) in line.get("o").and_then(Value::as_array).into_iter().flatten().enumerate() {
            let key = ObjectKey::of_list(parts);
            let is_deleted = parts.get(3).is_some_and(|effect| effect == "deleted");
            if parts.get(3).is_some_and(|effect| effect == "created") {
                self.created.insert((key.clone(), revision));
            }
            if !is_deleted {
                self.awaited.insert((key.clone(), revision), (at, place));
            }
            objects.push(ChangedObject { key, is_deleted, body: ObjectBody::Absent });
        }
        self.changes.push(Change { revision, line, is_outside, objects });
    }

    /// Adds what the scheduler says about a pod: the answer of `explain pod/NAME -o json`. The first ones stay if there are too many.
    pub fn placement(&mut self, mut placement: Value) {
        mask_credentials(&mut placement);
        self.facts.placements.push(placement);
    }

    /// Says how many pods there are about which the scheduler was not asked.
    pub fn placements_left_out(&mut self, number: usize) {
        self.facts.placements_left_out += number;
    }

    /// Adds a reading of the server's metrics.
    pub fn server(&mut self, reading: Value) {
        self.facts.server.push(reading);
    }

    /// Adds a mark.
    pub fn mark(&mut self, mark: Mark) {
        self.facts.marks.push(mark);
    }

    /// The newest revision.
    pub fn newest(&self) -> i64 {
        self.changes.last().map_or(self.from, |change| change.revision)
    }

    /// The pods of rows and changes: first those that have no node at the end, and of these and the others those that were written last.
    pub fn pods(&self) -> Vec<PodOfRecording> {
        let is_pod = |key: &ObjectKey| key.resource == PODS;
        let mut last: BTreeMap<ObjectKey, (i64, Value)> = BTreeMap::new();
        for row in &self.rows {
            let key = ObjectKey::of_row(row);
            if is_pod(&key) {
                last.insert(key, (self.from, row.clone()));
            }
        }
        for change in &self.changes {
            for (at, object) in change.objects.iter().enumerate().filter(|(_, object)| is_pod(&object.key)) {
                last.insert(object.key.clone(), (change.revision, change.line["o"][at][4].clone()));
            }
        }
        let mut found: Vec<(i64, PodOfRecording)> = last
            .into_iter()
            .map(|(key, (revision, row))| {
                let has_ended = matches!(row["s"].as_str(), Some("done" | "failed"));
                let is_pending = !row.is_null() && row.get("d").is_none() && !has_ended;
                (revision, PodOfRecording { key, is_pending })
            })
            .collect();
        found.sort_by_key(|(revision, pod)| (!pod.is_pending, std::cmp::Reverse(*revision)));
        found.into_iter().map(|(_, pod)| pod).collect()
    }

    /// The kinds with rows.
    pub fn kinds_of_rows(&self) -> Vec<String> {
        let kinds = self.rows.iter().map(|row| ObjectKey::of_row(row).resource);
        kinds.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The namespaces of a kind's objects in rows and changes.
    pub fn namespaces_of(&self, resource: &str) -> Vec<String> {
        let rows = self.rows.iter().map(ObjectKey::of_row);
        let changed = self.changes.iter().flat_map(|change| &change.objects).map(|object| object.key.clone());
        let own = rows.chain(changed).filter(|key| key.resource == resource).map(|key| key.namespace);
        own.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The states of a kind that have not come yet, in the order of their revisions.
    pub fn awaited(&self, resource: &str) -> Vec<(i64, ObjectKey)> {
        let own = self.awaited.keys().filter(|(key, _)| key.resource == resource);
        let mut found: Vec<_> = own.map(|(key, revision)| (*revision, key.clone())).collect();
        found.sort();
        found
    }

    /// Kinds of which states have not come yet.
    pub fn awaited_kinds(&self) -> Vec<String> {
        let kinds = self.awaited.keys().map(|(key, _)| key.resource.clone());
        kinds.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Number of states that have not come: after changes, and of rows of the first revision.
    pub(super) fn unread(&self) -> usize {
        let first = self.rows.iter().filter(|row| !self.base.contains_key(&ObjectKey::of_row(row)));
        self.awaited.len() + first.count()
    }

    /// Adds the state of an object at the first revision.
    pub fn first_state(&mut self, key: ObjectKey, object: Value) {
        let object = self.masked(&key, object, self.from);
        self.base.insert(key.clone(), object.clone());
        self.last.insert(key, (self.from, object));
    }

    /// Adds the state of an object after the write of a revision. False for a state that no write of this recording names, or that came
    /// before: it changes nothing.
    pub fn state(&mut self, key: &ObjectKey, revision: i64, object: Value) -> bool {
        let Some((at, place)) = self.awaited.remove(&(key.clone(), revision)) else { return false };
        let object = self.masked(key, object, revision);
        // Of the same object: not of a former one of this name.
        let before = self.last.get(key).filter(|(known, _)| {
            let since = (key.clone(), known + 1)..=(key.clone(), revision);
            self.created.range(since).next().is_none()
        });
        let body = match before {
            Some((_, before)) => ObjectBody::Edits(edits(before, &object)),
            None => ObjectBody::Full(object.clone()),
        };
        let size = match &body {
            ObjectBody::Absent => 0,
            ObjectBody::Full(object) => size(object),
            ObjectBody::Edits(edits) => edits.iter().filter_map(|edit| edit.value.as_ref()).map(size).sum(),
        };
        if self.kept_bytes + size > KEPT_BYTES {
            self.not_kept += 1;
            return true;
        }
        self.kept_bytes += size;
        self.changes[at].objects[place].body = body;
        self.last.insert(key.clone(), (revision, object));
        true
    }

    fn masked(&mut self, key: &ObjectKey, mut object: Value, revision: i64) -> Value {
        if key.resource == SECRETS {
            let known = mask_secret(&mut object, self.secrets.get(key), revision);
            self.secrets.insert(key.clone(), known);
        }
        mask_credentials(&mut object);
        object
    }
}

/// Bytes of a value as JSON.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size(item) + 1).sum::<usize>() + 2,
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() + 4 + size(value)).sum::<usize>() + 2
        }
        _ => 4,
    }
}

impl ObjectBody {
    /// Moves the state of an object over this write; `None` is no object, or an unknown state.
    pub(super) fn follow(&self, state: &mut Option<Value>) {
        match (self, state) {
            (Self::Absent, _) => {}
            (Self::Full(object), state) => *state = Some(object.clone()),
            (Self::Edits(edits), Some(state)) => apply(state, edits),
            (Self::Edits(_), None) => {}
        }
    }
}
