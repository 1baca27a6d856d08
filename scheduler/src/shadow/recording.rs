//! Recordings of clusters in which another scheduler decides: lines of JSON, each a [`Line`], one after the other as a [`Shadow`] takes
//! them. [`Recorder`] writes one, [`replay`] compares it with this scheduler.
//!
//! The decision of each attempt must be equal, not how often a pod is tried in vain: this scheduler may try a pod where the other one does
//! not, and the other one may try a pod in vain where this one does not.
//!
//! An object is recorded as a merge patch to its last state, so that a line has only what changed.

use super::{Attempted, Decision, Shadow, Turn};
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

    /// What the shadow would do next.
    pub fn next(&mut self, t: i64) -> Option<Turn> {
        let turn = self.shadow.next(time(t));
        if turn.is_none() {
            self.write(t, Entry::Quiet);
        }
        turn
    }

    /// The shadow's attempt for the pod that the other scheduler tries.
    pub fn attempt(&mut self, t: i64, pod: &str) -> Option<Attempted> {
        self.shadow.attempt(pod, time(t))
    }

    /// The other scheduler does not try the pod that the shadow would try.
    pub fn pass(&mut self, t: i64) {
        self.shadow.pass(time(t));
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
    /// Pods that this scheduler would try where the other one does not.
    pub extra: usize,
    /// Attempts of the other scheduler, in vain, for a pod that this one would not try.
    pub missing: usize,
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
        replay_line(&mut shadow, &mut objects, line, &mut replayed)
            .map_err(|error| format!("line {}, in step {} ({step}): {error}", number + 1, replayed.steps))?;
    }
    Ok(replayed)
}

fn replay_line(
    shadow: &mut Shadow,
    objects: &mut BTreeMap<ObjectName, Value>,
    Line { t, entry }: Line,
    replayed: &mut Replayed,
) -> Result<(), String> {
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
            // A pod whose volumes are awaited does not wait for an attempt.
            let ours = shadow.attempt(&theirs.pod, now).or_else(|| match shadow.next(now) {
                Some(Turn::Continues(decision)) => Some(Attempted { decision, is_expected: true }),
                _ => None,
            });
            replayed.missing += usize::from(compared(&theirs, ours)?);
        }
        Entry::Quiet => loop {
            match shadow.next(now) {
                None => break,
                Some(Turn::Tries(_)) => {
                    shadow.pass(now);
                    replayed.extra += 1;
                }
                Some(Turn::Continues(ours)) => {
                    return Err(format!("decided where the other scheduler did not\n  ours: {ours:?}"));
                }
            }
        },
    }
    Ok(())
}

/// Compares an attempt with that of the other scheduler: whether only that one tries the pod, in vain.
///
/// # Errors
/// The decisions differ, or this scheduler would not try a pod that the other one does not try in vain.
pub fn compared(theirs: &Decision, ours: Option<Attempted>) -> Result<bool, String> {
    let Some(Attempted { decision, is_expected }) = ours else {
        return Err(format!("here the pod does not wait\n  theirs: {theirs:?}"));
    };
    if decision != *theirs {
        return Err(format!("decided differently\n  theirs: {theirs:?}\n  ours:   {decision:?}"));
    }
    match is_expected || theirs.is_vain() {
        true => Ok(!is_expected),
        false => Err(format!("here the pod would not be tried\n  theirs: {theirs:?}")),
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
