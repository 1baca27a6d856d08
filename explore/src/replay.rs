//! Replay files: everything that is needed to run a finding again without references. No wall time is in them. Pure.

use crate::normalise::{Learned, NormalState, without_times};
use crate::oracle::{OracleId, Reference};
use crate::plan::Plan;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// `apiVersion` of replay files.
pub const API_VERSION: &str = "explore.kstore.io/v1alpha1";
/// `kind` of replay files.
pub const KIND: &str = "Replay";

/// A replay file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Replay {
    /// [`API_VERSION`].
    pub api_version: String,
    /// [`KIND`].
    pub kind: String,
    /// Version of kstore that wrote it.
    pub kstore: String,
    /// The scenario.
    pub scenario: ReplayScenario,
    /// Command of the operator.
    pub command: Vec<String>,
    /// Digest of the operator's program; empty if it is not a file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub program: String,
    /// Seed of the runs.
    pub seed: u64,
    /// The plan; empty actions: the finding needs no fault.
    #[serde(with = "plan_as_json")]
    pub plan: Plan,
    /// Steps of the scenario that are taken.
    pub steps: usize,
    /// What the run fails with.
    pub expected: ExpectedFailure,
    /// What references taught the comparison of states.
    pub learned: Learned,
    /// Normalised end states of the references.
    pub references: Vec<ReplayReference>,
}

/// A scenario as it was: its text, and digests of the files that it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplayScenario {
    /// Path from the folder in which the search was started.
    pub path: String,
    /// Text.
    pub text: String,
    /// Digests of the files that it names, by path relative to the scenario.
    pub files: BTreeMap<String, String>,
}

/// What a run fails with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExpectedFailure {
    /// The oracle.
    pub oracle: OracleId,
    /// The normalised difference.
    pub fingerprint: String,
    /// In words.
    pub summary: String,
}

/// What oracles need of a reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplayReference {
    /// Normalised end state; `None`: that of the first reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<NormalState>,
    /// The record, without wall times and without requests that succeeded. Of the objects at its end, who they are.
    pub record: crate::record::RunRecord,
}

/// Why a replay file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// It is no YAML, or has other members.
    #[error("this is no replay file: {0}")]
    Syntax(String),
    /// It is of another version or kind.
    #[error("the replay file is a {kind} of {version}; this program reads {KIND} of {API_VERSION}")]
    Version {
        /// `kind` of the file.
        kind: String,
        /// `apiVersion` of the file.
        version: String,
    },
    /// The scenario, or a file that it names, has changed.
    #[error("{0} is not what it was when the finding was made: search again")]
    Changed(String),
}

/// The digest of a file.
pub fn file_digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Plans in the form that they have in JSON: YAML's tags of triggers cannot be read inside of actions.
mod plan_as_json {
    use crate::plan::Plan;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de, ser};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(plan: &Plan, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::to_value(plan).map_err(ser::Error::custom)?.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Plan, D::Error> {
        serde_json::from_value(Value::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// What oracles ask of an object at the end of a reference: who it is, whose, and whether it is deleted.
fn head(object: &Value) -> Value {
    let kept = ["name", "namespace", "uid", "ownerReferences", "deletionTimestamp"];
    let members = object["metadata"].as_object().into_iter().flatten();
    let members = members.filter(|(name, _)| kept.contains(&name.as_str()));
    let metadata: Map<String, Value> = members.map(|(name, value)| (name.clone(), value.clone())).collect();
    json!({ "metadata": metadata })
}

impl ReplayReference {
    /// A reference without wall times.
    pub fn of(reference: &Reference) -> Self {
        let mut record = reference.record.clone();
        // No oracle asks what was there before.
        record.initial = Vec::new();
        record.requests.retain(|request| request.code >= 400);
        for write in &mut record.writes {
            write.before = write.before.take().map(without_times);
            write.after = write.after.take().map(without_times);
        }
        for stored in &mut record.end {
            stored.object = without_times(head(&stored.object));
        }
        Self { end: Some(reference.end.clone()), record }
    }

    /// References without wall times. End states that equal the first are left out.
    pub fn all(references: &[Reference]) -> Vec<Self> {
        let mut all: Vec<Self> = references.iter().map(Self::of).collect();
        if let Some((first, others)) = all.split_first_mut() {
            others.iter_mut().filter(|other| other.end == first.end).for_each(|other| other.end = None);
        }
        all
    }

    /// The references for oracles.
    pub fn into_references(all: Vec<Self>) -> Vec<Reference> {
        let first = all.first().and_then(|first| first.end.clone()).unwrap_or_default();
        let reference =
            |kept: Self| Reference { record: kept.record, end: kept.end.unwrap_or_else(|| first.clone()) };
        all.into_iter().map(reference).collect()
    }
}

impl Replay {
    /// The file as YAML.
    ///
    /// # Errors
    /// A value has no YAML form.
    pub fn to_yaml(&self) -> Result<String, ReplayError> {
        serde_yaml_ng::to_string(self).map_err(|error| ReplayError::Syntax(error.to_string()))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It is no replay file, or one of another version.
    pub fn parse(text: &str) -> Result<Self, ReplayError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Head {
            api_version: String,
            kind: String,
        }
        let syntax = |error: serde_yaml_ng::Error| ReplayError::Syntax(error.to_string());
        let Head { api_version, kind } = serde_yaml_ng::from_str(text).map_err(syntax)?;
        if api_version != API_VERSION || kind != KIND {
            return Err(ReplayError::Version { kind, version: api_version });
        }
        serde_yaml_ng::from_str(text).map_err(syntax)
    }

    /// Checks that a scenario is the one of the file. `files` are the digests of the files that it names.
    ///
    /// # Errors
    /// The name of the first part that has changed.
    pub fn fits(&self, text: &str, files: &BTreeMap<String, String>) -> Result<(), ReplayError> {
        if self.scenario.text != text {
            return Err(ReplayError::Changed(format!("the scenario {}", self.scenario.path)));
        }
        let names: std::collections::BTreeSet<&String> =
            self.scenario.files.keys().chain(files.keys()).collect();
        match names.into_iter().find(|name| self.scenario.files.get(*name) != files.get(*name)) {
            Some(changed) => Err(ReplayError::Changed(format!("the file {changed}"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::pattern_id::PatternId;
    use crate::plan::{Operation, PlannedAction, RequestPhase, Restart, Subject, Trigger, at_request};
    use crate::record::{ObjectKey, RunRecord};

    pub(crate) fn replay() -> Replay {
        let key = ObjectKey {
            resource: "configmaps".to_owned(),
            namespace: "default".to_owned(),
            name: "a".to_owned(),
        };
        let kill = Operation::Kill { program: "op".to_owned(), start: Restart::Now, cache: None };
        let trigger = at_request(("op", "create", ""), &key, 1, RequestPhase::Done);
        let skip = Operation::Skip { until: Box::new(Trigger::quiet()) };
        Replay {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            kstore: "0.1.0".to_owned(),
            scenario: ReplayScenario {
                path: "s.yaml".to_owned(),
                text: "kind: Scenario\n".to_owned(),
                files: BTreeMap::from([("a.yaml".to_owned(), file_digest(b"a"))]),
            },
            command: vec!["./op".to_owned()],
            program: String::new(),
            seed: 1,
            plan: Plan {
                pattern: PatternId::Crash,
                subject: Subject { resource: "configmaps".to_owned(), verb: "create".to_owned() },
                actions: vec![PlannedAction::at(trigger, kill), PlannedAction::at_once(skip)],
            },
            steps: 2,
            expected: ExpectedFailure {
                oracle: OracleId::EndState,
                fingerprint: "x".to_owned(),
                summary: "another".to_owned(),
            },
            learned: Learned::default(),
            references: vec![ReplayReference {
                end: Some(NormalState::default()),
                record: RunRecord::empty(),
            }],
        }
    }

    #[test]
    fn a_replay_file_comes_back_as_it_was_written() {
        let replay = replay();
        let text = replay.to_yaml().unwrap();
        assert_eq!(Replay::parse(&text).unwrap(), replay);
        assert!(!text.contains("20"), "no wall time is in a replay file: {text}");
    }

    #[test]
    fn references_of_a_replay_have_no_wall_times() {
        let time = "2026-01-01T00:00:00Z";
        let write = crate::oracle::tests::write(
            1,
            "op",
            "configmaps/default/a",
            serde_json::json!({"t": time}),
            serde_json::json!({"t": time}),
        );
        let mut record = crate::oracle::tests::run(vec![write]);
        record.end =
            vec![crate::oracle::tests::stored("configmaps/default/a", "u", serde_json::json!({"t": time}))];
        let reference = Reference { record, end: NormalState::default() };
        let kept = ReplayReference::all(&[reference.clone(), reference]);
        assert!(kept[0].end.is_some() && kept[1].end.is_none(), "an equal end state is left out");
        let text = serde_json::to_string(&kept).unwrap();
        assert!(!text.contains("2026"), "{text}");
        let back = ReplayReference::into_references(kept);
        assert_eq!(back[1].end, NormalState::default());
        assert_eq!(back[1].record.end[0].key().name, "a");
    }

    #[test]
    fn other_files_are_refused_and_a_changed_scenario_is_named() {
        assert!(matches!(Replay::parse("a: [").unwrap_err(), ReplayError::Syntax(_)));
        let other = replay().to_yaml().unwrap().replace("v1alpha1", "v9");
        assert!(matches!(Replay::parse(&other).unwrap_err(), ReplayError::Version { .. }));
        let more = format!("{}more: 1\n", replay().to_yaml().unwrap());
        assert!(matches!(Replay::parse(&more).unwrap_err(), ReplayError::Syntax(_)));
        let files = |bytes: &[u8]| BTreeMap::from([("a.yaml".to_owned(), file_digest(bytes))]);
        let text = "kind: Scenario\n";
        assert_eq!(replay().fits(text, &files(b"a")), Ok(()));
        let changed = |text: &str, files: &BTreeMap<String, String>| {
            replay().fits(text, files).unwrap_err().to_string()
        };
        assert!(changed("kind: X\n", &files(b"a")).starts_with("the scenario s.yaml is not"));
        assert!(changed(text, &files(b"b")).starts_with("the file a.yaml is not"));
        assert!(changed(text, &BTreeMap::new()).starts_with("the file a.yaml is not"));
    }
}
