//! The chunks of a recording, within a number of bytes. Pure.

use super::chunk::{ChunkWriter, FIRST_LINE, TooLong, append};
use super::delta::{Edit, apply, edits};
use super::limits::{FACT_INFLATED_BYTES, INFLATED_BYTES};
use super::loss::{BodyPlace, Importance, Loss, cut_values, without_managed_fields};
use super::recording::{Change, ChangedObject, ObjectBody, ObjectKey, Recording};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What goes into a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent<'l> {
    /// What is left out of states.
    pub(super) losses: &'l [Loss],
    /// Number of oldest changes that are left out.
    pub(super) skipped: usize,
    /// Whether states are in it at all.
    pub(super) has_states: bool,
}

impl Extent<'_> {
    /// Whether nothing is left out: then states go into the file as the recording has them.
    fn is_whole(&self) -> bool {
        self.losses.is_empty() && self.skipped == 0 && self.has_states
    }
}

/// Numbers of what was left out.
pub(super) type Lost = BTreeMap<Loss, usize>;

/// The data of a file: all chunks. `meta` makes the content of the first one of what was left out, and of the first revision.
///
/// # Errors
/// They would have more than `most` bytes.
pub(super) fn encode(
    recording: &Recording,
    importance: &Importance<'_>,
    extent: Extent<'_>,
    most: usize,
    meta: impl Fn(&Lost, i64) -> Value,
) -> Result<Vec<u8>, TooLong> {
    let mut encoder = Encoder {
        recording,
        importance,
        extent,
        states: if extent.is_whole() { BTreeMap::new() } else { recording.base.clone() },
        shown: BTreeMap::new(),
        present: BTreeSet::new(),
        rows: recording.rows.iter().map(|row| (ObjectKey::of_row(row), row.clone())).collect(),
        lost: Lost::new(),
    };
    let mut room = (most.checked_sub(FIRST_LINE.len()).ok_or(TooLong)?, INFLATED_BYTES - FACT_INFLATED_BYTES);
    encoder.skip();
    let mut data = Vec::new();
    chunk(&mut data, &mut room, "rows", |chunk| encoder.rows(chunk))?;
    chunk(&mut data, &mut room, "base", |chunk| encoder.base(chunk))?;
    chunk(&mut data, &mut room, "changes", |chunk| encoder.changes(chunk))?;
    let mut out = FIRST_LINE.as_bytes().to_vec();
    let meta = meta(&encoder.lost, encoder.first_revision());
    chunk(&mut out, &mut room, "meta", |chunk| chunk.line(&meta))?;
    out.append(&mut data);
    Ok(out)
}

/// Appends a chunk, and takes it from the room that is left: bytes, and inflated ones.
fn chunk(
    out: &mut Vec<u8>,
    room: &mut (usize, usize),
    kind: &str,
    write: impl FnOnce(&mut ChunkWriter) -> Result<(), TooLong>,
) -> Result<(), TooLong> {
    let before = out.len();
    let mut chunk = ChunkWriter::new(room.0, room.1);
    write(&mut chunk)?;
    let (content, inflated) = chunk.finish()?;
    append(out, kind, &content);
    room.0 = room.0.checked_sub(out.len() - before).ok_or(TooLong)?;
    room.1 -= inflated;
    Ok(())
}

struct Encoder<'r> {
    recording: &'r Recording,
    importance: &'r Importance<'r>,
    extent: Extent<'r>,
    /// The states of all objects, as the recording has them.
    states: BTreeMap<ObjectKey, Value>,
    /// Their states as the file has them.
    shown: BTreeMap<ObjectKey, Value>,
    /// The objects with a state in the file, if nothing is left out: only then the edits of the recording are those of the file, and
    /// neither `states` nor `shown` is needed.
    present: BTreeSet<ObjectKey>,
    rows: BTreeMap<ObjectKey, Value>,
    lost: Lost,
}

impl Encoder<'_> {
    fn lose(&mut self, loss: Loss, number: usize) {
        if number > 0 {
            *self.lost.entry(loss).or_default() += number;
        }
    }

    fn first_revision(&self) -> i64 {
        match self.extent.skipped.checked_sub(1) {
            Some(last) => self.recording.changes[last].revision,
            None => self.recording.from,
        }
    }

    /// Moves states and rows over the changes that are left out.
    fn skip(&mut self) {
        for change in &self.recording.changes[..self.extent.skipped] {
            for at in 0..change.objects.len() {
                self.follow(change, at);
                let key = &change.objects[at].key;
                match row(change, at) {
                    Value::Null => self.rows.remove(key),
                    row => self.rows.insert(key.clone(), row.clone()),
                };
            }
        }
        self.lose(Loss::Revisions, self.extent.skipped);
    }

    /// Moves the state of an object over a change.
    fn follow(&mut self, change: &Change, at: usize) {
        let object = &change.objects[at];
        let mut state = self.states.remove(&object.key);
        if !object.is_deleted {
            object.body.follow(&mut state);
            self.states.extend(state.map(|state| (object.key.clone(), state)));
        }
    }

    fn rows(&mut self, chunk: &mut ChunkWriter) -> Result<(), TooLong> {
        chunk.line(&json!({"revision": self.first_revision(), "kinds": self.recording.kinds}))?;
        self.rows.values().try_for_each(|row| chunk.line(row))
    }

    fn base(&mut self, chunk: &mut ChunkWriter) -> Result<(), TooLong> {
        if self.extent.is_whole() {
            self.present = self.recording.base.keys().cloned().collect();
            let mut states = self.recording.base.iter();
            return states.try_for_each(|(key, state)| {
                chunk.line(&json!([key.resource, key.namespace, key.name, state]))
            });
        }
        if !self.extent.has_states {
            self.lose(Loss::NewestStates, self.states.len());
            return Ok(());
        }
        let kept = &self.recording.changes[self.extent.skipped..];
        let changed: BTreeSet<&ObjectKey> =
            kept.iter().flat_map(|change| &change.objects).map(|object| &object.key).collect();
        for (key, state) in std::mem::take(&mut self.states) {
            let shown = self.reduced(state.clone(), !changed.contains(&key));
            chunk.line(&json!([key.resource, key.namespace, key.name, shown]))?;
            self.shown.insert(key.clone(), shown);
            self.states.insert(key, state);
        }
        Ok(())
    }

    /// A state without what is left out of it.
    fn reduced(&mut self, mut state: Value, is_newest: bool) -> Value {
        if self.extent.losses.contains(&Loss::ManagedFields) && !is_newest {
            let had = without_managed_fields(&mut state);
            self.lose(Loss::ManagedFields, usize::from(had));
        }
        if self.extent.losses.contains(&Loss::LongValues) {
            let cut = cut_values(&mut state);
            self.lose(Loss::LongValues, cut);
        }
        state
    }

    fn changes(&mut self, chunk: &mut ChunkWriter) -> Result<(), TooLong> {
        let recording = self.recording;
        for (number, change) in recording.changes.iter().enumerate().skip(self.extent.skipped) {
            let members = change.line.as_object().into_iter().flatten().filter(|(name, _)| *name != "o");
            let mut line: Map<String, Value> =
                members.map(|(name, value)| (name.clone(), value.clone())).collect();
            let objects = (0..change.objects.len()).map(|at| {
                let key = &change.objects[at].key;
                let row = self.row_edits(key, row(change, at));
                let body = self.body(change, (number, at));
                json!([key.resource, key.namespace, key.name, change.line["o"][at][3], row, body])
            });
            line.insert("o".to_owned(), objects.collect());
            chunk.line(&line.into())?;
        }
        Ok(())
    }

    /// A row as edits of the one before: a list; or the row, if there was none.
    fn row_edits(&mut self, key: &ObjectKey, row: &Value) -> Value {
        if row.is_null() {
            self.rows.remove(key);
            return Value::Null;
        }
        match self.rows.insert(key.clone(), row.clone()) {
            Some(before) => list(&edits(&before, row)),
            None => row.clone(),
        }
    }

    /// The state of an object after a change, as edits of the last one in the file: a list; or the state, if there was none. `null`: there
    /// is none in the file, or the object is gone.
    fn body(&mut self, change: &Change, place: BodyPlace) -> Value {
        let object = &change.objects[place.1];
        if self.extent.is_whole() {
            return self.whole_body(object);
        }
        self.follow(change, place.1);
        if object.is_deleted {
            self.shown.remove(&object.key);
        }
        if object.body == ObjectBody::Absent {
            return Value::Null;
        }
        let loss = match self.extent.has_states {
            true => self.importance.loss(change, place, self.extent.losses),
            false => Some(Loss::NewestStates),
        };
        if let Some(loss) = loss {
            self.lose(loss, 1);
            return Value::Null;
        }
        let Some(state) = self.states.get(&object.key).cloned() else { return Value::Null };
        let shown = self.reduced(state, self.importance.is_newest(place));
        match (self.shown.get_mut(&object.key), &object.body) {
            (Some(before), ObjectBody::Edits(_)) => {
                let edits = edits(before, &shown);
                apply(before, &edits);
                list(&edits)
            }
            _ => {
                self.shown.insert(object.key.clone(), shown.clone());
                shown
            }
        }
    }

    /// As `body`, if nothing is left out: no state is copied or compared again.
    fn whole_body(&mut self, object: &ChangedObject) -> Value {
        if object.is_deleted {
            self.present.remove(&object.key);
        }
        match &object.body {
            ObjectBody::Full(state) => {
                self.present.insert(object.key.clone());
                state.clone()
            }
            ObjectBody::Edits(edits) if self.present.contains(&object.key) => list(edits),
            ObjectBody::Edits(_) | ObjectBody::Absent => Value::Null,
        }
    }
}

/// The row of an object of a change.
fn row(change: &Change, at: usize) -> &Value {
    &change.line["o"][at][4]
}

fn list(edits: &[Edit]) -> Value {
    edits.iter().map(Edit::to_json).collect()
}
