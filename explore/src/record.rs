//! What is recorded of one run: requests, writes with their bases, steps, exits of programs, and the objects at the begin and the end.
//! Plain values, which oracles judge, patterns make plans of, and finding files keep.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Where an object is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectKey {
    /// `plural.group`.
    pub resource: String,
    /// Namespace; empty at cluster scope.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.is_empty() {
            true => write!(f, "{}/{}", self.resource, self.name),
            false => write!(f, "{}/{}/{}", self.resource, self.namespace, self.name),
        }
    }
}

/// An object of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredObject {
    /// `plural.group`.
    pub resource: String,
    /// The object.
    pub object: Value,
}

impl StoredObject {
    /// Where it is.
    pub fn key(&self) -> ObjectKey {
        let text = |name: &str| self.object["metadata"][name].as_str().unwrap_or_default().to_owned();
        ObjectKey { resource: self.resource.clone(), namespace: text("namespace"), name: text("name") }
    }

    /// Its UID; empty if it has none.
    pub fn uid(&self) -> &str {
        self.object["metadata"]["uid"].as_str().unwrap_or_default()
    }
}

/// What a write did to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// The object is new.
    Created,
    /// The object was there before.
    Updated,
    /// The object is gone.
    Deleted,
}

/// The newest revision of a kind that a client had been shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewedRevision {
    /// `plural.group`.
    pub resource: String,
    /// Revision; 0: nothing.
    pub delivered: i64,
    /// Whether it may have been shown more, in a form that the lab does not read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// A write of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedWrite {
    /// Revision.
    pub revision: i64,
    /// Milliseconds of real time since the begin of the run.
    pub real: u64,
    /// Milliseconds of the cluster's time since 1970; 0 if that is not known.
    #[serde(default)]
    pub time: i64,
    /// Name of the writing client: an operator's name, the agent of a component of the cluster, or that of the runner.
    pub client: String,
    /// Which start of the program; 0 is the first.
    #[serde(default)]
    pub incarnation: u32,
    /// `create`, `update`, `patch`, `delete`, with the subresource after a slash.
    pub verb: String,
    /// The object.
    pub key: ObjectKey,
    /// What happened to it.
    pub effect: Effect,
    /// The object before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The object after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// What the writer had been shown of each kind that it reads; empty if that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<ViewedRevision>,
    /// Revisions that the writer named as causes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<i64>,
}

impl RecordedWrite {
    /// The object after the write, or before its deletion.
    pub fn object(&self) -> &Value {
        self.after.as_ref().or(self.before.as_ref()).unwrap_or(&Value::Null)
    }

    /// UID of the object.
    pub fn uid(&self) -> &str {
        self.object()["metadata"]["uid"].as_str().unwrap_or_default()
    }

    /// The newest revision of a kind that the writer is known to have been shown; `None` if that is not known.
    pub fn delivered(&self, resource: &str) -> Option<i64> {
        self.views.iter().find(|view| view.resource == resource).map(|view| view.delivered)
    }

    /// The newest revision of a kind that the writer had been shown, if all that was delivered to it is known: what is newer it had not
    /// seen.
    pub fn seen(&self, resource: &str) -> Option<i64> {
        let view = self.views.iter().find(|view| view.resource == resource);
        view.filter(|view| !view.partial).map(|view| view.delivered)
    }

    /// The changed paths, without what the server changes in every write.
    pub fn changed(&self) -> Vec<String> {
        let nothing = Value::Null;
        let (before, after) =
            (self.before.as_ref().unwrap_or(&nothing), self.after.as_ref().unwrap_or(&nothing));
        let mut paths = Vec::new();
        changed(before, after, String::new(), &mut paths, crate::limits::DEPTH);
        paths.retain(|path| !SERVER_FIELDS.iter().any(|field| path.starts_with(field)));
        paths.sort();
        paths.dedup();
        paths
    }

    /// The shape of the write: writes of one shape do the same to the same object.
    pub fn shape(&self) -> WriteShape {
        let changed = match self.effect {
            Effect::Updated => self.changed(),
            Effect::Created | Effect::Deleted => Vec::new(),
        };
        WriteShape { client: self.client.clone(), verb: self.verb.clone(), key: self.key.clone(), changed }
    }
}

/// Members that the server changes in each write.
const SERVER_FIELDS: [&str; 4] =
    ["metadata.resourceVersion", "metadata.managedFields", "metadata.generation", "metadata.uid"];

/// Appends the paths at which two values differ. Members of lists share the path of their list.
fn changed(before: &Value, after: &Value, path: String, paths: &mut Vec<String>, depth: usize) {
    match (before, after) {
        _ if before == after => {}
        (Value::Object(old), Value::Object(new)) if depth > 0 => {
            let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let nothing = &Value::Null;
                let (old, new) = (old.get(name).unwrap_or(nothing), new.get(name).unwrap_or(nothing));
                changed(old, new, below, paths, depth - 1);
            }
        }
        (Value::Array(old), Value::Array(new)) if depth > 0 && old.len() == new.len() => {
            for (old, new) in old.iter().zip(new) {
                changed(old, new, path.clone(), paths, depth - 1);
            }
        }
        _ => paths.push(path),
    }
}

/// What writes of one shape have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WriteShape {
    /// Client.
    pub client: String,
    /// Verb with subresource.
    pub verb: String,
    /// Object.
    pub key: ObjectKey,
    /// Changed paths of an update.
    pub changed: Vec<String>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRequest {
    /// Position in the log.
    pub n: u64,
    /// Milliseconds of real time since the begin of the run.
    pub real: u64,
    /// Milliseconds of real time from the arrival until the answer began, with the wait for a turn in the serial order.
    #[serde(default)]
    pub took: u64,
    /// Client.
    pub client: String,
    /// Verb.
    pub verb: String,
    /// `plural.group`; empty outside the resource API.
    pub resource: String,
    /// Subresource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// Namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name; empty for collections and creates.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// State that a read asked for: `unset`, `0`, `min:N`, `exact:N`.
    pub version: String,
    /// HTTP status; 0: no answer.
    pub code: u16,
    /// Revision of the written object, or of the store.
    pub revision: i64,
    /// Name of an injected fault.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fault: String,
}

impl RecordedRequest {
    /// Whether the request may write.
    pub fn is_write(&self) -> bool {
        matches!(&*self.verb, "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// The request in words: `update jobs.batch/default/a/status`.
    pub fn what(&self) -> String {
        let parts = [&self.resource, &self.namespace, &self.name, &self.subresource];
        let parts: Vec<&str> =
            parts.iter().map(|part| part.as_str()).filter(|part| !part.is_empty()).collect();
        format!("{} {}", self.verb, parts.join("/"))
    }
}

/// A step of the scenario as it went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedStep {
    /// Name.
    pub name: String,
    /// Revision of the store before the step.
    pub begin: i64,
    /// Revision after it.
    pub end: i64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEnd {
    /// The end state is that of a reference, and stays so.
    Converged,
    /// Nothing was written for as long as the runner waits, and the state equals no reference's.
    Quiet,
    /// A step's wait ran out: its name, and what was waited for.
    StepTimedOut {
        /// Name of the step.
        step: String,
        /// What it waited for, and what was there.
        problem: String,
    },
    /// A step failed, such as a command that exits with another code than 0.
    StepFailed {
        /// Name of the step.
        step: String,
        /// What failed.
        problem: String,
    },
    /// A program writes an object again and again.
    Looping,
    /// The run's time was over and something was still busy: what waits on what.
    Busy(Vec<String>),
}

/// A program that ended by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedExit {
    /// Name of the program.
    pub program: String,
    /// Its exit code, or 128 plus the signal.
    pub code: i32,
    /// The last lines of its output.
    pub output: String,
    /// Whether the program was refused something by an injected fault before.
    pub after_fault: bool,
}

/// The record of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Objects of the image.
    pub initial: Vec<StoredObject>,
    /// Requests of programs, in the order of the log.
    pub requests: Vec<RecordedRequest>,
    /// Writes by revision.
    pub writes: Vec<RecordedWrite>,
    /// Steps.
    pub steps: Vec<RecordedStep>,
    /// Objects at the end.
    pub end: Vec<StoredObject>,
    /// How it ended.
    pub ended: RunEnd,
    /// Programs that ended by themselves.
    pub exits: Vec<RecordedExit>,
    /// Whether it converged only after several times the patience.
    pub is_late: bool,
    /// Revision at which the last step had ended.
    pub steps_done: i64,
    /// Milliseconds of real time that the run took.
    pub took: u64,
    /// Longest pause in milliseconds of real time between two writes.
    pub longest_pause: u64,
    /// Number of turns of requests and events.
    #[serde(default)]
    pub turns: u64,
    /// The first turn that was given although a program was not quiet: what followed may differ from run to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unquiet: Option<String>,
}

impl RunRecord {
    /// A record of a run in which nothing happened.
    pub fn empty() -> Self {
        Self {
            initial: Vec::new(),
            requests: Vec::new(),
            writes: Vec::new(),
            steps: Vec::new(),
            end: Vec::new(),
            ended: RunEnd::Converged,
            exits: Vec::new(),
            is_late: false,
            steps_done: 0,
            took: 0,
            longest_pause: 0,
            turns: 0,
            unquiet: None,
        }
    }

    /// Index of the step during or after which a revision was written; 0: before the first.
    pub fn step_of(&self, revision: i64) -> usize {
        self.steps.iter().filter(|step| step.begin < revision).count()
    }

    /// The write that caused a revision, directly or through the causes that writers name; its client is one of `clients`.
    pub fn caused_by(&self, write: &RecordedWrite, clients: &[&str]) -> Option<&RecordedWrite> {
        let by_revision: BTreeMap<i64, &RecordedWrite> =
            self.writes.iter().map(|write| (write.revision, write)).collect();
        let mut wanted: Vec<i64> = vec![write.revision];
        let mut seen = std::collections::BTreeSet::new();
        while let Some(revision) = wanted.pop() {
            if !seen.insert(revision) {
                continue;
            }
            let Some(found) = by_revision.get(&revision) else { continue };
            if clients.contains(&found.client.as_str()) {
                return Some(found);
            }
            wanted.extend(&found.causes);
        }
        None
    }
}

/// A short digest of a value, for keys of equal things.
pub fn digest(value: &Value) -> String {
    use sha2::{Digest, Sha256};
    let bytes = Sha256::digest(value.to_string().as_bytes());
    bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
