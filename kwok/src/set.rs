//! [`StageSet`]: the stages of all kinds, from documents. Pure.

use crate::document::StageDocument;
use crate::expression::WorkBudget;
use crate::limits::{SELECTION_COST, SELECTION_STEPS, STAGES};
use crate::stage::Stage;
use serde::Deserialize as _;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// The group of KWOK's kinds.
pub const GROUP: &str = "kwok.x-k8s.io";
/// KWOK's kinds that are not supported, and what to use instead.
const OTHERS: [(&str, &str); 11] = [
    ("ResourceUsage", USAGE),
    ("ClusterResourceUsage", USAGE),
    ("Metric", USAGE),
    ("Logs", LOGS),
    ("ClusterLogs", LOGS),
    ("Exec", EXEC),
    ("ClusterExec", EXEC),
    ("Attach", EXEC),
    ("ClusterAttach", EXEC),
    ("PortForward", PORTS),
    ("ClusterPortForward", PORTS),
];
const USAGE: &str = "pods without stages use what the annotations kubelet-sim.kstore.io/cpu and memory, a PodBehavior or a ServiceLoad say";
const LOGS: &str =
    "pods without stages log what their commands and the annotations kubelet-sim.kstore.io/* say";
const EXEC: &str =
    "pods without stages have a simulated shell, and kstore runs no command of a file on this machine";
const PORTS: &str = "ports of pods without stages are served by their known images";

/// The kind of the objects that follow a stage.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// Group and version, such as `v1` or `apps/v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

impl Kind {
    /// The kind of an apiVersion, which is `v1` if it is empty.
    pub(crate) fn of(api_version: &str, kind: &str) -> Self {
        let api_version = if api_version.is_empty() { "v1" } else { api_version };
        Self { api_version: api_version.to_owned(), kind: kind.to_owned() }
    }

    /// Whether it is the kind of pods.
    pub fn is_pod(&self) -> bool {
        self.api_version == "v1" && self.kind == "Pod"
    }

    /// Whether it is the kind of nodes.
    pub fn is_node(&self) -> bool {
        self.api_version == "v1" && self.kind == "Node"
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.kind, self.api_version)
    }
}

/// The selectors and weights of the stages of a kind take more work on an object than one event of it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the selectors of its stages take more than {} steps of jq or a cost of {} of CEL on it, so it follows none",
    SELECTION_STEPS,
    SELECTION_COST
)]
pub struct TooMuchWork;

/// The stages of one kind, in the order of their documents.
#[derive(Debug, Default)]
pub struct Lifecycle(Vec<Stage>);

impl Lifecycle {
    /// The number of the stage that an object follows now; `None` if none selects it. Of several, `draw` chooses by their weights.
    ///
    /// # Errors
    /// The selectors and weights take more work on the object than one event of it may.
    pub fn choose(&self, object: &Value, draw: u64) -> Result<Option<usize>, TooMuchWork> {
        let mut budget = WorkBudget::new();
        let mut matching = Vec::new();
        for (at, stage) in self.0.iter().enumerate() {
            if stage.selects(object, &mut budget) {
                matching.push(at);
            }
            if budget.is_spent() {
                return Err(TooMuchWork);
            }
        }
        if matching.len() < 2 {
            return Ok(matching.first().copied());
        }
        let weights: Vec<_> =
            matching.iter().map(|at| (*at, self.0[*at].weight(object, &mut budget))).collect();
        match budget.is_spent() {
            true => Err(TooMuchWork),
            false => Ok(drawn(matching, &weights, draw)),
        }
    }

    /// A stage by its number.
    pub fn stage(&self, number: usize) -> Option<&Stage> {
        self.0.get(number)
    }
}

/// One of the matching stages, by their weights.
fn drawn(matching: Vec<usize>, weights: &[(usize, Option<i64>)], draw: u64) -> Option<usize> {
    let positive = || weights.iter().filter_map(|(at, weight)| Some((*at, u64::try_from((*weight)?).ok()?)));
    let total = positive().fold(0u64, |sum, (_, weight)| sum.saturating_add(weight));
    if total > 0 {
        let mut left = draw % total;
        for (at, weight) in positive() {
            match left.checked_sub(weight) {
                None => return Some(at),
                Some(rest) => left = rest,
            }
        }
    }
    // Without weights each is as likely, but for those whose weight has an error, if not all have one.
    let sound: Vec<usize> =
        weights.iter().filter(|(_, weight)| weight.is_some()).map(|(at, _)| *at).collect();
    let all = if sound.is_empty() { matching } else { sound };
    let count = u64::try_from(all.len()).unwrap_or(u64::MAX);
    usize::try_from(draw % count).ok().and_then(|at| all.get(at).copied())
}

/// Stages by the kinds of the objects that follow them.
#[derive(Debug, Default)]
pub struct StageSet(BTreeMap<Kind, Lifecycle>);

impl StageSet {
    /// Compiles documents, each with the name of its source.
    ///
    /// # Errors
    /// All documents that are wrong or not supported, one a line: source, stage, member, line of a template, and the reason.
    pub fn read<'d>(documents: impl IntoIterator<Item = (&'d str, &'d Value)>) -> Result<Self, Vec<String>> {
        let (mut set, mut problems, mut count) = (Self::default(), Vec::new(), 0);
        for (source, document) in documents {
            let text = |name: &str| document[name].as_str().unwrap_or_default();
            let name = document["metadata"]["name"].as_str().unwrap_or_default();
            let shown = format!("{source}: {} {name:?}", text("kind"));
            match compiled(text("apiVersion"), text("kind"), document) {
                Err(problem) => problems.push(format!("{shown}: {problem}")),
                Ok(None) => {}
                Ok(Some((kind, stage))) => {
                    count += 1;
                    set.0.entry(kind).or_default().0.push(stage);
                }
            }
        }
        if count > STAGES {
            problems.push(format!("{count} stages are more than {STAGES}"));
        }
        if problems.is_empty() { Ok(set) } else { Err(problems) }
    }

    /// Whether there are no stages.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The kinds that have stages.
    pub fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.0.keys()
    }

    /// The stages of a kind.
    pub fn lifecycle(&self, kind: &Kind) -> Option<&Lifecycle> {
        self.0.get(kind)
    }

    /// Whether pods follow stages.
    pub fn has_pods(&self) -> bool {
        self.0.keys().any(Kind::is_pod)
    }

    /// Whether nodes follow stages.
    pub fn has_nodes(&self) -> bool {
        self.0.keys().any(Kind::is_node)
    }
}

fn compiled(api_version: &str, kind: &str, document: &Value) -> Result<Option<(Kind, Stage)>, String> {
    if api_version == "config.kwok.x-k8s.io/v1alpha1" {
        return Err("KWOK's own options are not read; give the server's flags instead".to_owned());
    }
    if let Some((_, instead)) = OTHERS.iter().find(|(other, _)| *other == kind) {
        return Err(format!("only stages of KWOK are supported: {instead}"));
    }
    if (api_version, kind) != ("kwok.x-k8s.io/v1alpha1", "Stage") {
        return Err(format!(
            "{api_version} is not of {GROUP}/v1alpha1, or no Stage; give other objects to kubectl or --manifest"
        ));
    }
    let document = StageDocument::deserialize(document).map_err(|error| error.to_string())?;
    Stage::compile(document).map_err(|problem| format!("spec.{problem}"))
}
