//! Scenarios: what `explore` prepares, which operators it runs, which steps it takes and what must hold. Read from YAML; every mistake is
//! refused with line and column before anything starts.

mod fields;
mod parts;
mod read;
mod steps;
#[cfg(test)]
mod tests;

use crate::oracle_id::{OracleId, Severity};
use crate::yaml::{Mistake, Position};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `apiVersion` of scenarios.
pub const API_VERSION: &str = "explore.kstore.io/v1alpha1";

/// A scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// `metadata.name`.
    pub name: String,
    /// The cluster that all runs start from.
    pub cluster: PreparedCluster,
    /// Programs under test. Without a command the one of the command line is meant.
    pub operators: Vec<Operator>,
    /// What the user does, in order.
    pub steps: Vec<Step>,
    /// Conditions that hold all the time.
    pub invariants: Vec<Invariant>,
    /// Conditions of the end state.
    pub expect: Vec<Expectation>,
    /// Paths whose values are never compared.
    pub volatile: Vec<VolatilePath>,
    /// Objects that are compared as a multiset of contents.
    pub fungible: Vec<ObjectSet>,
    /// Objects and clients that are not looked at.
    pub ignore: Vec<Ignored>,
    /// Severities that replace those of the oracles.
    pub severity: BTreeMap<OracleId, Severity>,
}

/// The cluster that is prepared once and becomes an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedCluster {
    /// Whether kstore's controllers run.
    pub controllers: bool,
    /// The only controllers that run, by the names of kube-controller-manager; empty: all.
    pub only_controllers: Vec<String>,
    /// Whether the scheduler runs.
    pub scheduler: bool,
    /// Simulated nodes; 0: none run.
    pub nodes: usize,
    /// Files and folders with definitions of custom resources.
    pub crds: Vec<PathBuf>,
    /// Files and folders with further objects.
    pub manifests: Vec<PathBuf>,
    /// Addresses of the Services whose webhooks, and APIs of APIServices, the operators serve, by `NAMESPACE/NAME` or
    /// `NAMESPACE/NAME:PORT`; with placeholders of ports.
    pub services: BTreeMap<String, String>,
}

/// A program under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// Name; the client's name in the lab.
    pub name: String,
    /// Command; empty: that of the command line.
    pub command: Vec<String>,
    /// `namespace/name` of its service account; `None`: a user of its own in `system:masters`.
    pub service_account: Option<String>,
    /// Variables of its environment.
    pub env: BTreeMap<String, String>,
    /// When it counts as ready.
    pub ready: Ready,
    /// The operator whose further replica this process is; `None`: it is the first or only one.
    pub replica_of: Option<String>,
}

impl Operator {
    /// The name that all replicas of the operator share: that of the first.
    pub fn group(&self) -> &str {
        self.replica_of.as_ref().unwrap_or(&self.name)
    }

    /// The name of the user with which the operator authenticates to the API server.
    pub fn user(&self) -> String {
        match &self.service_account {
            None => format!("kstore:lab:{}", self.name),
            Some(account) => format!("system:serviceaccount:{}", account.replacen('/', ":", 1)),
        }
    }
}

/// When an operator is ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ready {
    /// It is quiet and has a watch open.
    #[default]
    Quiet,
    /// It has a watch open of each of these resources.
    Watches(Vec<String>),
    /// Its output has this text.
    Log(String),
    /// It listens at the port of this name, which its command or environment has as `{port:NAME}`.
    Port(String),
}

/// A step with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// `apply-1`, counted by verb.
    pub name: String,
    /// Where the scenario has it.
    pub position: Position,
    /// What happens.
    pub action: StepAction,
}

/// What happens in a step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepAction {
    /// Applies the objects of a file or folder.
    Apply(PathBuf),
    /// Waits for an object.
    Wait {
        /// The object.
        object: ObjectRef,
        /// What it has to be.
        goal: WaitGoal,
        /// Time of the cluster for which the step waits.
        within: Duration,
    },
    /// Merges a patch into an object.
    Patch {
        /// The object.
        object: ObjectRef,
        /// JSON merge patch.
        merge: Value,
    },
    /// Waits until cluster and operators are quiet.
    Settle,
    /// Lets the cluster's time pass.
    Advance(Duration),
    /// Runs a command with KUBECONFIG set; it must exit with 0.
    Exec(Vec<String>),
    /// Deletes an object.
    Delete {
        /// The object.
        object: ObjectRef,
        /// Whether the step ends only when the object is gone.
        waits: bool,
    },
    /// Deletes an object, waits until it is gone, and creates what was applied before.
    Recreate(ObjectRef),
}

impl StepAction {
    /// The verb in names of steps.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Apply(_) => "apply",
            Self::Wait { .. } => "wait",
            Self::Patch { .. } => "patch",
            Self::Settle => "settle",
            Self::Advance(_) => "advance",
            Self::Exec(_) => "exec",
            Self::Delete { .. } => "delete",
            Self::Recreate(_) => "recreate",
        }
    }
}

/// What a `wait` step waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum WaitGoal {
    /// A condition of the status is `True`.
    Condition(String),
    /// The object has these members.
    Matches(Value),
    /// The object does not exist.
    Deleted,
    /// The object exists.
    Exists,
}

/// An object: `plural.group/namespace/name`, or without the namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// `plural.group`, or the plural alone for the core group.
    pub resource: String,
    /// Namespace; empty at cluster scope.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectRef {
    /// Reads `plural.group/namespace/name` or `plural.group/name`.
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let (resource, namespace, name) = match parts[..] {
            [resource, name] => (resource, "", name),
            [resource, namespace, name] if !namespace.is_empty() => (resource, namespace, name),
            _ => return None,
        };
        let is_complete = !resource.is_empty() && !name.is_empty();
        let owned = str::to_owned;
        is_complete.then(|| Self {
            resource: owned(resource),
            namespace: owned(namespace),
            name: owned(name),
        })
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.is_empty() {
            true => write!(f, "{}/{}", self.resource, self.name),
            false => write!(f, "{}/{}/{}", self.resource, self.namespace, self.name),
        }
    }
}

/// Objects of a kind, narrowed by namespace and labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSet {
    /// `plural.group`.
    pub resource: String,
    /// Namespace; empty: all.
    pub namespace: String,
    /// Labels that must be equal; empty: all objects.
    pub labels: BTreeMap<String, String>,
}

impl ObjectSet {
    /// Whether an object of a resource belongs to the set.
    pub fn contains(&self, resource: &str, object: &Value) -> bool {
        let label = |name: &str| object["metadata"]["labels"][name].as_str();
        let is_namespace = || object["metadata"]["namespace"].as_str().unwrap_or_default() == self.namespace;
        self.resource == resource
            && (self.namespace.is_empty() || is_namespace())
            && self.labels.iter().all(|(name, value)| label(name) == Some(value))
    }
}

/// A condition in CEL over sets of objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Invariant {
    /// Name.
    pub name: String,
    /// Variables: lists of objects.
    pub objects: BTreeMap<String, ObjectSet>,
    /// The condition.
    pub expression: String,
    /// Whether it must hold at settled moments only, and not at every revision.
    pub is_settled: bool,
}

/// A condition of one object in the end state.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// The object.
    pub object: ObjectRef,
    /// Whether it has to exist.
    pub exists: bool,
    /// Members that it must have, if it exists.
    pub matches: Option<Value>,
}

/// A path whose value is not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolatilePath {
    /// `plural.group`.
    pub resource: String,
    /// Names and list positions; `*` stands for any.
    pub path: Vec<String>,
}

/// What is not looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// Objects of a resource.
    Resource(String),
    /// Writes of a client.
    Client(String),
}

/// Why a scenario cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// Name of the file.
    pub file: String,
    /// All mistakes that were found, in the order of the text.
    pub mistakes: Vec<Mistake>,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, mistake) in self.mistakes.iter().enumerate() {
            let line = if nth > 0 { "\n" } else { "" };
            write!(f, "{line}{}:{mistake}", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for ScenarioError {}

impl Scenario {
    /// Reads a scenario. `file` is its path: other paths are relative to its folder.
    ///
    /// # Errors
    /// All mistakes of the text, up to a limit.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ScenarioError> {
        read::scenario(text, file.parent().unwrap_or(Path::new("")))
            .map_err(|mistakes| ScenarioError { file: file.display().to_string(), mistakes })
    }

    /// Files and folders that the scenario names, in order.
    pub fn paths(&self) -> Vec<&Path> {
        let cluster = self.cluster.crds.iter().chain(&self.cluster.manifests);
        let applied = self.steps.iter().filter_map(|step| match &step.action {
            StepAction::Apply(path) => Some(path),
            _ => None,
        });
        cluster.chain(applied).map(PathBuf::as_path).collect()
    }

    /// Whether objects of a resource are not looked at.
    pub fn ignores_resource(&self, resource: &str) -> bool {
        self.ignore.iter().any(|ignored| matches!(ignored, Ignored::Resource(name) if name == resource))
    }

    /// Whether writes of a client are not looked at.
    pub fn ignores_client(&self, client: &str) -> bool {
        self.ignore.iter().any(|ignored| matches!(ignored, Ignored::Client(name) if name == client))
    }

    /// Whether an object is compared by content only.
    pub fn is_fungible(&self, resource: &str, object: &Value) -> bool {
        self.fungible.iter().any(|set| set.contains(resource, object))
    }
}
