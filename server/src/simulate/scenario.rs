//! [`Scenario`]: what a simulation consists of, read from its documents and checked. Pure.

use crate::simulation::{Sourced, compiled, is_of_kwok};
use kstore_api::kind;
use kstore_client::manifest::ManifestObject;
use kstore_client::{Gvr, Patch};
use kstore_go_duration::parse_non_negative;
use kstore_kubelet_sim::sim_api;
use kstore_kwok::StageSet;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The API version of scenarios and of what they simulate.
const SIMULATION: &str = "sim.kstore.io/v1alpha1";
/// The kind whose objects scale by the usage of pods.
const AUTOSCALER: &str = "HorizontalPodAutoscaler";
/// The kind of the document with the steps.
const SCENARIO: &str = "Scenario";

/// A simulation.
#[derive(Debug, Default)]
pub(super) struct Scenario {
    /// How long it lasts, if a document says so.
    pub(super) until: Option<Duration>,
    /// The seed, if a document names one.
    pub(super) seed: Option<u64>,
    /// KWOK's stages, which objects of their kinds follow.
    pub(super) stages: StageSet,
    /// Groups and faults, which exist from the start.
    pub(super) simulation: Vec<ManifestObject>,
    /// Other objects, which are applied at the start in their order.
    pub(super) objects: Vec<ManifestObject>,
    /// What happens later, ordered by time.
    pub(super) steps: Vec<TimedStep>,
}

/// A step and its time from the start.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimedStep {
    pub(super) at: Duration,
    pub(super) step: Step,
}

/// Something that a user does to the cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Applies an object.
    Apply(ManifestObject),
    /// Changes an object by a merge patch.
    Change(Target, Value),
    /// Deletes an object.
    Delete(Target),
}

/// An object that a step names.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    pub(super) resource: Gvr,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Step {
    /// The patch of a change.
    pub(super) fn patch(change: &Value) -> Patch {
        Patch::Merge(change.clone())
    }
}

/// The document with the steps.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ScenarioSpec {
    until: Option<String>,
    seed: Option<u64>,
    steps: Vec<StepDoc>,
}

/// A step: one of the members beside `at`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepDoc {
    at: String,
    apply: Option<Value>,
    scale: Option<ScaleDoc>,
    delete: Option<TargetDoc>,
    fault: Option<FaultDoc>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetDoc {
    kind: String,
    name: String,
    #[serde(default)]
    namespace: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScaleDoc {
    kind: String,
    name: String,
    #[serde(default)]
    namespace: String,
    replicas: u32,
}

/// Faults of a node, as its annotation has them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultDoc {
    node: String,
    faults: String,
}

impl Scenario {
    /// Reads the documents of a scenario.
    ///
    /// # Errors
    /// Every document that is wrong.
    pub(super) fn read(documents: Vec<Sourced>) -> Result<Self, Vec<String>> {
        let (mut scenario, mut problems) = (Self::default(), Vec::new());
        let (stages, documents): (Vec<_>, Vec<_>) =
            documents.into_iter().partition(|(_, object)| is_of_kwok(object));
        match compiled(&stages) {
            Ok(stages) => scenario.stages = stages,
            Err(wrong) => problems.extend(wrong),
        }
        for (source, object) in documents {
            if object.api_version() != SIMULATION {
                match object.check() {
                    Ok(()) => scenario.objects.push(object),
                    Err(error) => problems.push(format!("{source}: {error}")),
                }
            } else if object.kind() == SCENARIO {
                if let Err(problem) = scenario.take(&object) {
                    problems.push(format!("{source}: document {}: {SCENARIO}: {problem}", object.document));
                }
            } else {
                problems.extend(sim_api::check(&source, &object));
                scenario.simulation.push(object);
            }
        }
        scenario.steps.sort_by_key(|step| step.at);
        if problems.is_empty() { Ok(scenario) } else { Err(problems) }
    }

    /// Whether an object of the scenario asks for the usage of pods, so that the cluster needs a metrics server.
    pub(super) fn reads_usage(&self) -> bool {
        let applied = self.steps.iter().filter_map(|step| match &step.step {
            Step::Apply(object) => Some(object),
            Step::Change(..) | Step::Delete(_) => None,
        });
        self.objects.iter().chain(applied).any(|object| object.kind() == AUTOSCALER)
    }

    fn take(&mut self, object: &ManifestObject) -> Result<(), String> {
        let spec = object.value.get("spec").cloned().unwrap_or_default();
        let spec: ScenarioSpec = serde_json::from_value(spec).map_err(|error| format!("spec: {error}"))?;
        if let Some(until) = &spec.until {
            self.until = Some(time("spec.until", until)?);
        }
        self.seed = spec.seed.or(self.seed);
        for (index, doc) in spec.steps.into_iter().enumerate() {
            let path = format!("spec.steps[{index}]");
            let at = time(&format!("{path}.at"), &doc.at)?;
            self.steps.push(TimedStep { at, step: step(&path, doc, object.document)? });
        }
        Ok(())
    }
}

fn time(path: &str, text: &str) -> Result<Duration, String> {
    parse_non_negative(text).map_err(|_| format!("{path} {text:?} is not a time such as 6h or 90s"))
}

fn step(path: &str, doc: StepDoc, document: usize) -> Result<Step, String> {
    let StepDoc { apply, scale, delete, fault, .. } = doc;
    match (apply, scale, delete, fault) {
        (Some(value), None, None, None) => {
            let object = ManifestObject { document, value };
            object.check().map_err(|_| format!("{path}.apply: needs apiVersion, kind and metadata.name"))?;
            match object.api_version() == SIMULATION {
                true => match sim_api::check(path, &object).first() {
                    Some(problem) => Err(problem.clone()),
                    None => Ok(Step::Apply(object)),
                },
                false => Ok(Step::Apply(object)),
            }
        }
        (None, Some(scale), None, None) => {
            let target = target(path, &scale.kind, &scale.name, &scale.namespace)?;
            Ok(Step::Change(target, json!({ "spec": { "replicas": scale.replicas } })))
        }
        (None, None, Some(delete), None) => {
            target(path, &delete.kind, &delete.name, &delete.namespace).map(Step::Delete)
        }
        (None, None, None, Some(fault)) => {
            let target = target(path, "Node", &fault.node, "")?;
            let annotations = json!({ "kubelet-sim.kstore.io/fault": fault.faults });
            Ok(Step::Change(target, json!({ "metadata": { "annotations": annotations } })))
        }
        _ => Err(format!("{path}: give one of apply, scale, delete and fault")),
    }
}

/// The object that a step names by kind and name.
fn target(path: &str, kind: &str, name: &str, namespace: &str) -> Result<Target, String> {
    let (resource, is_namespaced) = match kind {
        "NodeGroup" => (Gvr::new("sim.kstore.io", "v1alpha1", "nodegroups"), false),
        "NodeFault" => (Gvr::new("sim.kstore.io", "v1alpha1", "nodefaults"), false),
        "PodBehavior" => (Gvr::new("sim.kstore.io", "v1alpha1", "podbehaviors"), false),
        "ServiceLoad" => (Gvr::new("sim.kstore.io", "v1alpha1", "serviceloads"), true),
        kind => {
            let row = kind::stored().find(|row| row.kind == kind);
            let row = row.ok_or_else(|| {
                format!("{path}: kind {kind:?} is not built in; apply a whole object instead")
            })?;
            (Gvr::new(row.group, row.version, row.plural), row.namespaced)
        }
    };
    let namespace = match (is_namespaced, namespace) {
        (false, _) => "",
        (true, "") => "default",
        (true, namespace) => namespace,
    };
    Ok(Target { resource, namespace: namespace.to_owned(), name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_client::manifest::objects;

    fn read(text: &str) -> Result<Scenario, Vec<String>> {
        let all = objects(text).unwrap();
        Scenario::read(all.into_iter().map(|object| ("day.yaml".to_owned(), object)).collect())
    }

    #[test]
    fn documents_are_sorted_by_what_they_are_and_steps_by_time() {
        let scenario = read(
            "apiVersion: sim.kstore.io/v1alpha1\nkind: NodeGroup\nmetadata: {name: web}\nspec: {replicas: 2}\n---\n\
             apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n\
             apiVersion: sim.kstore.io/v1alpha1\nkind: Scenario\nmetadata: {name: day}\nspec:\n  until: 24h\n  seed: 7\n  steps:\n\
             \x20 - {at: 6h, scale: {kind: Deployment, name: web, replicas: 3}}\n\
             \x20 - {at: 90s, fault: {node: web-0, faults: crash+10m}}\n\
             \x20 - {at: 7h, delete: {kind: Node, name: web-0}}\n",
        )
        .unwrap();
        assert_eq!((scenario.until, scenario.seed), (Some(Duration::from_secs(86_400)), Some(7)));
        assert_eq!((scenario.simulation.len(), scenario.objects.len()), (1, 1));
        assert!(!scenario.reads_usage());
        let later = "{at: 1h, apply: {apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}}}";
        let text = format!(
            "apiVersion: {SIMULATION}\nkind: Scenario\nmetadata: {{name: a}}\nspec: {{steps: [{later}]}}\n"
        );
        assert!(read(&text).unwrap().reads_usage());
        let seconds: Vec<_> = scenario.steps.iter().map(|step| step.at.as_secs()).collect();
        assert_eq!(seconds, [90, 21_600, 25_200]);
        let Step::Change(target, change) = &scenario.steps[1].step else { panic!("{:?}", scenario.steps[1]) };
        assert_eq!((target.namespace.as_str(), target.name.as_str()), ("default", "web"));
        assert_eq!(
            (target.resource.to_string().as_str(), change),
            ("apps/v1/deployments", &json!({"spec": {"replicas": 3}}))
        );
    }

    #[test]
    fn wrong_steps_are_named() {
        for (steps, expected) in [
            (
                "[{at: soon, delete: {kind: Pod, name: a}}]",
                "spec.steps[0].at \"soon\" is not a time such as 6h or 90s",
            ),
            ("[{at: 1h}]", "spec.steps[0]: give one of apply, scale, delete and fault"),
            ("[{at: 1h, delete: {kind: Lamp, name: a}}]", "kind \"Lamp\" is not built in"),
            ("[{at: 1h, scale: {kind: Deployment, name: a}}]", "missing field `replicas`"),
            (
                "[{at: 1h, apply: {kind: Pod}}]",
                "spec.steps[0].apply: needs apiVersion, kind and metadata.name",
            ),
            ("[{at: 1h, reboot: a}]", "unknown field `reboot`"),
        ] {
            let text = format!(
                "apiVersion: {SIMULATION}\nkind: Scenario\nmetadata: {{name: a}}\nspec: {{steps: {steps}}}\n"
            );
            let problems = read(&text).unwrap_err();
            assert!(problems.len() == 1 && problems[0].contains(expected), "{problems:?}");
        }
    }

    #[test]
    fn stages_of_kwok_are_compiled_and_wrong_ones_named() {
        let stage = |kind: &str, next: &str| {
            format!(
                "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {{name: s}}\nspec:\n  resourceRef: {{kind: {kind}}}\n  \
                 selector: {{}}\n  next: {{{next}}}\n"
            )
        };
        let scenario = read(&stage("Pod", "statusTemplate: 'phase: Running'")).unwrap();
        assert!(scenario.stages.has_pods() && scenario.objects.is_empty());
        let problem = |text: &str| read(text).unwrap_err().join(" ");
        assert!(problem(&stage("Pod", "statusTemplate: '{{ genCA }}'")).contains("genCA"));
        assert!(problem(&stage("Lamp", "delete: true")).contains("there is no Lamp"));
    }
}
