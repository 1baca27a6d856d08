//! Recordings of clusters in which another scheduler decides: lines of JSON, each a [`Line`], one after the other as a [`Shadow`] takes
//! them. [`Recorder`] writes one, [`replay`] compares it with this scheduler.
//!
//! Only the decisions must be equal, not how often a pod is tried in vain: this scheduler may refuse a pod once more where the other one
//! does not try it, and the other way round.
//!
//! An object is recorded as a merge patch to its last state, so that a line has only what changed.

use super::{Decision, Shadow};
use crate::reconstruct::DecisionKind;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A line of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Milliseconds since the start of the recording.
    pub t: i64,
    /// What happened.
    #[serde(flatten)]
    pub entry: Entry,
}

/// What happened at one moment of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Entry {
    /// An operation of the script begins; its name.
    Step(String),
    /// An object has a new state.
    Set(ObjectName, Value),
    /// An object was deleted.
    Gone(ObjectName),
    /// The other scheduler has decided.
    Decided(Decision),
    /// The writes of the last decision were made, the last at this revision.
    Settled(u64),
    /// No pod is tried until something changes.
    Quiet,
}

/// The kind of an object as [`DecisionKind`] prints it, its namespace or nothing, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectName(pub String, pub String, pub String);

impl ObjectName {
    /// The name of an object that the API has in JSON.
    pub fn of(kind: DecisionKind, object: &Value) -> Self {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        Self(format!("{kind:?}"), text("namespace"), text("name"))
    }

    /// The kind; `None` if decisions read no such kind.
    pub fn kind(&self) -> Option<DecisionKind> {
        DecisionKind::ALL.into_iter().find(|kind| format!("{kind:?}") == self.0)
    }
}

/// The moment at which recordings begin.
fn time(t: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_millis(t)
}

/// A shadow whose inputs are recorded.
#[derive(Default)]
pub struct Recorder {
    shadow: Shadow,
    objects: BTreeMap<ObjectName, Value>,
    lines: String,
}

impl Recorder {
    /// The recording so far.
    pub fn lines(&self) -> &str {
        &self.lines
    }

    /// The last state of each object.
    pub fn objects(&self) -> &BTreeMap<ObjectName, Value> {
        &self.objects
    }

    /// Records the begin of an operation.
    pub fn step(&mut self, t: i64, name: &str) {
        self.write(t, Entry::Step(name.to_owned()));
    }

    /// Takes the newest state of an object.
    ///
    /// # Errors
    /// The object cannot be read.
    pub fn set(&mut self, t: i64, kind: DecisionKind, object: Value) -> Result<(), String> {
        let name = ObjectName::of(kind, &object);
        let patch = difference(self.objects.get(&name).unwrap_or(&Value::Null), &object);
        self.shadow.set(kind, object.to_string().as_bytes(), time(t)).map_err(|error| error.to_string())?;
        self.objects.insert(name.clone(), object);
        self.write(t, Entry::Set(name, patch));
        Ok(())
    }

    /// Takes the deletion of an object; nothing if it is not known.
    ///
    /// # Errors
    /// The object cannot be read.
    pub fn delete(&mut self, t: i64, name: &ObjectName) -> Result<(), String> {
        let Some(object) = self.objects.remove(name) else { return Ok(()) };
        let kind = name.kind().ok_or("an unknown kind")?;
        self.shadow
            .delete(kind, object.to_string().as_bytes(), time(t))
            .map_err(|error| error.to_string())?;
        self.write(t, Entry::Gone(name.clone()));
        Ok(())
    }

    /// The next decision of the shadow.
    pub fn next(&mut self, t: i64) -> Option<Decision> {
        let decision = self.shadow.next(time(t));
        if decision.is_none() {
            self.write(t, Entry::Quiet);
        }
        decision
    }

    /// Ends the last decision, which is a refusal of a pod that the other scheduler has refused before and does not try again now.
    pub fn skip(&mut self, t: i64) {
        self.shadow.settle(0, time(t));
    }

    /// Records the decision of the other scheduler.
    pub fn decided(&mut self, t: i64, decision: Decision) {
        self.write(t, Entry::Decided(decision));
    }

    /// Ends the last decision.
    pub fn settle(&mut self, t: i64, revision: u64) {
        self.shadow.settle(revision, time(t));
        self.write(t, Entry::Settled(revision));
    }

    fn write(&mut self, t: i64, entry: Entry) {
        self.lines += &serde_json::to_string(&Line { t, entry }).expect("a line is JSON");
        self.lines.push('\n');
    }
}

/// What a replay has compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Operations.
    pub steps: usize,
    /// Decisions.
    pub decisions: usize,
    /// Refusals of this scheduler where the other one does not try a pod: only such are allowed.
    pub extra: usize,
}

/// Gives a scheduler what the other one had, and compares each decision.
///
/// # Errors
/// A decision differs, or a line cannot be read: with the number of the line and the last operation.
pub fn replay(lines: &str) -> Result<Replayed, String> {
    let mut shadow = Shadow::new();
    let mut objects = BTreeMap::new();
    let (mut replayed, mut step) = (Replayed::default(), String::new());
    for (number, line) in lines.lines().enumerate() {
        let line: Line =
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 1))?;
        if let Entry::Step(name) = &line.entry {
            step.clone_from(name);
            replayed.steps += 1;
        }
        replayed.decisions += usize::from(matches!(line.entry, Entry::Decided(_)));
        let extra = replay_line(&mut shadow, &mut objects, line)
            .map_err(|error| format!("line {}, in step {} ({step}): {error}", number + 1, replayed.steps))?;
        replayed.extra += extra;
    }
    Ok(replayed)
}

fn replay_line(
    shadow: &mut Shadow,
    objects: &mut BTreeMap<ObjectName, Value>,
    Line { t, entry }: Line,
) -> Result<usize, String> {
    let now = time(t);
    let unknown = |name: &ObjectName| format!("an unknown object {name:?}");
    match entry {
        Entry::Step(_) => {}
        Entry::Set(name, patch) => {
            let kind = name.kind().ok_or_else(|| unknown(&name))?;
            let object = objects.entry(name).or_default();
            merge(object, patch);
            shadow.set(kind, object.to_string().as_bytes(), now).map_err(|error| error.to_string())?;
        }
        Entry::Gone(name) => {
            let kind = name.kind().ok_or_else(|| unknown(&name))?;
            let object = objects.remove(&name).ok_or_else(|| unknown(&name))?;
            shadow.delete(kind, object.to_string().as_bytes(), now).map_err(|error| error.to_string())?;
        }
        Entry::Settled(revision) => {
            shadow.settle(revision, now);
        }
        Entry::Decided(theirs) => {
            let is_extra = |ours: &Decision| ours.pod != theirs.pod && ours.is_refusal();
            return match skip(shadow, now, is_extra) {
                (Some(ours), extra) if ours == theirs => Ok(extra),
                (ours, _) => Err(format!("decided differently\n  theirs: {theirs:?}\n  ours: {ours:?}")),
            };
        }
        Entry::Quiet => {
            return match skip(shadow, now, Decision::is_refusal) {
                (None, extra) => Ok(extra),
                (Some(ours), _) => {
                    Err(format!("decided where the other scheduler did not\n  ours: {ours:?}"))
                }
            };
        }
    }
    Ok(0)
}

/// The next decision that is not extra, and the number of those before it.
fn skip(
    shadow: &mut Shadow,
    now: Timestamp,
    is_extra: impl Fn(&Decision) -> bool,
) -> (Option<Decision>, usize) {
    let mut extra = 0;
    loop {
        match shadow.next(now) {
            Some(ours) if is_extra(&ours) => {
                shadow.settle(0, now);
                extra += 1;
            }
            ours => return (ours, extra),
        }
    }
}

/// The merge patch that makes `new` of `old`.
fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let mut patch = Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in new {
        match old.get(name) {
            Some(same) if same == value => {}
            Some(other) => drop(patch.insert(name.clone(), difference(other, value))),
            None => drop(patch.insert(name.clone(), value.clone())),
        }
    }
    Value::Object(patch)
}

/// Applies a merge patch.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let object = target.as_object_mut().expect("it was made one");
    for (name, value) in patch {
        match value {
            Value::Null => drop(object.remove(&name)),
            value => merge(object.entry(name).or_insert(Value::Null), value),
        }
    }
}
