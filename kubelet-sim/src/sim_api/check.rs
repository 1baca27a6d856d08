//! Checks of documents before a simulation starts, by the schemas of the kinds and by what only this crate knows. Pure.

use super::{GROUP, VERSION, definitions};
use crate::behavior::{self, ANNOTATION_PREFIX};
use crate::fault::object::FaultSpec;
use crate::fault::request;
use crate::group::spec::{GroupDoc, GroupSpec};
use crate::load::spec::{LoadDoc, LoadSpec};
use crate::pod_behavior::spec::{BehaviorDoc, BehaviorSpec};
use kstore_api::lenient;
use kstore_api::schema::decode::FieldProblem;
use kstore_api::structural::{Tree, ValidationScope};
use kstore_client::manifest::ManifestObject;
use serde_json::Value;
use std::sync::Arc;

/// What is wrong with a document of a simulation; empty if it can be applied. `source` is the name of its file, for the texts.
pub fn check(source: &str, object: &ManifestObject) -> Vec<String> {
    let (kind, name) = (object.kind(), object.name());
    let document = object.document;
    let text = |problem: String| format!("{source}: document {document}: {kind} {name:?}: {problem}");
    if let Err(error) = object.check() {
        return vec![format!("{source}: {error}")];
    }
    if object.api_version() != format!("{GROUP}/{VERSION}") {
        let expected = format!("is not of {GROUP}/{VERSION}; give other objects to kubectl or --manifest");
        return vec![text(format!("apiVersion {:?} {expected}", object.api_version()))];
    }
    let Some(schema) = schema(kind) else {
        return vec![text("unknown kind; known: NodeFault, NodeGroup, PodBehavior, ServiceLoad".to_owned())];
    };
    let tree = match Tree::compile(&schema) {
        Ok(tree) => Arc::new(tree),
        Err(error) => return vec![text(error.to_string())],
    };
    let mut pruned = object.value.clone();
    let mut problems: Vec<String> =
        tree.prune(&mut pruned).iter().map(|problem| unknown(&tree, problem)).collect();
    problems.extend(
        tree.validate(&object.value, None, ValidationScope::Whole).into_iter().map(|e| e.to_string()),
    );
    if problems.is_empty() {
        problems.extend(tree.validate_rules(&object.value, None).errors.into_iter().map(|e| e.to_string()));
    }
    if problems.is_empty() {
        problems.extend(meaning(kind, &object.value).err());
    }
    problems.into_iter().map(text).collect()
}

/// What is wrong with an object of this kind, as sentences: the annotations of pods, templates and Nodes, and what the schemas of this
/// API's kinds cannot say. An event `InvalidSimulation` about the object has the same sentence.
pub fn problems(kind: &str, object: &Value) -> Vec<String> {
    let mut problems = behavior::problems(kind, object);
    if object["apiVersion"].as_str().is_some_and(|version| version.starts_with(&format!("{GROUP}/"))) {
        // The kind of the object: one of the API server's tables need not name custom kinds.
        problems.extend(object["kind"].as_str().and_then(|kind| meaning(kind, object).err()));
    }
    let key = format!("{ANNOTATION_PREFIX}{}", request::ANNOTATION);
    if kind == "Node"
        && let Some(Err(problem)) = object["metadata"]["annotations"][&*key].as_str().map(request::parse)
    {
        problems.push(format!("annotation {key}: {problem}"));
    }
    problems
}

/// The schema of a kind.
fn schema(kind: &str) -> Option<Value> {
    let all = definitions();
    let of_kind = all.iter().find(|one| one.is_definition() && one.value["spec"]["names"]["kind"] == kind)?;
    Some(of_kind.value["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone())
}

/// The text about an unknown member, with the most similar known one.
fn unknown(tree: &Tree, problem: &FieldProblem) -> String {
    let (FieldProblem::Unknown(path) | FieldProblem::Duplicate(path)) = problem;
    let mut schema = Some(tree.root());
    let mut parts: Vec<&str> = path.split('.').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let name = part.split('[').next().unwrap_or_default();
        schema = schema.and_then(|schema| schema.property(name));
        if part.contains('[') {
            schema = schema.and_then(|schema| schema.items());
        }
    }
    let known = schema.into_iter().flat_map(|schema| schema.properties().map(|(name, _)| name));
    match known.min_by_key(|known| strsim::osa_distance(last, known)) {
        Some(nearest) => format!("{problem}; did you mean {nearest:?}?"),
        None => problem.to_string(),
    }
}

/// What the schema cannot say.
fn meaning(kind: &str, object: &Value) -> Result<(), String> {
    match kind {
        "NodeGroup" => {
            let doc: GroupDoc =
                lenient::from_value(&object["spec"]).map_err(|error| format!("spec: {error}"))?;
            GroupSpec::check(&doc).map(drop)
        }
        "PodBehavior" => {
            let doc: BehaviorDoc =
                lenient::from_value(&object["spec"]).map_err(|error| format!("spec: {error}"))?;
            BehaviorSpec::check(&doc).map(drop)
        }
        "ServiceLoad" => {
            let doc: LoadDoc =
                lenient::from_value(&object["spec"]).map_err(|error| format!("spec: {error}"))?;
            LoadSpec::check(&doc).map(drop)
        }
        "NodeFault" => {
            let spec: FaultSpec =
                lenient::from_value(&object["spec"]).map_err(|error| format!("spec: {error}"))?;
            spec.request().map(drop)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_client::manifest::objects;

    fn problems(text: &str) -> Vec<String> {
        objects(text).unwrap().iter().flat_map(|object| check("dc.yaml", object)).collect()
    }

    #[test]
    fn faults_in_the_annotation_of_a_node_are_checked() {
        let node = |faults: &str| serde_json::json!({"metadata": {"annotations": {"kubelet-sim.kstore.io/fault": faults}}});
        assert_eq!(super::problems("Node", &node("crash@5m")), [""; 0]);
        let expected =
            "annotation kubelet-sim.kstore.io/fault: unknown fault \"crsh\"; did you mean \"crash\"?";
        assert_eq!(super::problems("Node", &node("crsh")), [expected]);
    }

    #[test]
    fn objects_that_the_schema_admits_and_the_simulation_cannot_follow_have_a_problem() {
        for (kind, spec, expected) in [
            (
                "NodeFault",
                "{nodes: {names: [a]}, fault: crsh}",
                "unknown fault \"crsh\"; did you mean \"crash\"?",
            ),
            (
                "NodeFault",
                "{nodes: {names: [a]}, fault: crash, at: {after: soon}}",
                "at.after \"soon\" is not ",
            ),
            ("NodeGroup", "{namePattern: x}", "must contain {index} or {random}"),
            (
                "NodeGroup",
                "{replicas: 60, maxReplicas: 50}",
                "spec.replicas: replicas 60 is above maxReplicas 50",
            ),
            (
                "PodBehavior",
                "{match: {images: [x]}, behavior: {ready-afte: 5s}}",
                "did you mean \"ready-after\"?",
            ),
            ("ServiceLoad", "{service: web, curve: {constant: 1, hours: [2]}}", "give one of"),
        ] {
            let object = &objects(&of(kind, spec)).unwrap()[0];
            let found = super::problems(kind, &object.value);
            assert!(found.len() == 1 && found[0].contains(expected), "{kind} {spec}: {found:?}");
        }
        let good = objects(GOOD).unwrap();
        assert!(good.iter().all(|object| super::problems(object.kind(), &object.value).is_empty()));
        let foreign = serde_json::json!({"apiVersion": "example.com/v1", "kind": "NodeFault", "spec": {"fault": "crsh"}});
        assert_eq!(
            super::problems("NodeFault", &foreign),
            [""; 0],
            "a kind of the same name of another group"
        );
    }

    const GOOD: &str = "
apiVersion: sim.kstore.io/v1alpha1
kind: NodeGroup
metadata: {name: web}
spec:
  replicas: 6
  minReplicas: 2
  maxReplicas: 50
  zones: [eu-1a, eu-1b, eu-1c]
  instanceType: m5.xlarge
  template: {capacity: {cpu: 4, memory: 16Gi, pods: 58}, reserved: {cpu: 80m, memory: 600Mi}}
  startup: {provision: \"uniform(30,60)\", ready: 10s}
  cost: {perHour: \"0.192\"}
---
apiVersion: sim.kstore.io/v1alpha1
kind: NodeFault
metadata: {name: noon}
spec: {nodes: {selector: {topology.kubernetes.io/zone: eu-1b}}, fault: partition, at: {after: 12h}, duration: 20m}
";

    /// A document of this kind.
    fn of(kind: &str, spec: &str) -> String {
        format!("apiVersion: sim.kstore.io/v1alpha1\nkind: {kind}\nmetadata: {{name: web}}\nspec: {spec}\n")
    }

    fn group(spec: &str) -> String {
        of("NodeGroup", spec)
    }

    fn fault(spec: &str) -> String {
        of("NodeFault", spec)
    }

    #[test]
    fn documents_are_checked_by_schema_rules_and_meaning() {
        assert_eq!(problems(GOOD), Vec::<String>::new());
        for (text, expected) in [
            (group("{replica: 3}"), "unknown field \"spec.replica\"; did you mean \"replicas\"?"),
            (
                group("{template: {taints: [{key: a, effect: NoSchedule, valu: b}]}}"),
                "did you mean \"value\"?",
            ),
            (group("{replicas: 60, maxReplicas: 50}"), "replicas is above maxReplicas"),
            (group("{replicas: x}"), "spec.replicas"),
            (group("{namePattern: x}"), "must contain {index} or {random}"),
            (
                group("{template: {kubelet: {leaseInterval: 40s, leaseDuration: 40s}}}"),
                "spec.template.kubelet.leaseInterval \"40s\": must be at least 1s and below leaseDuration",
            ),
            (group("{startup: {ready: soon}}"), "spec.startup.ready \"soon\" is not a delay"),
            (
                group("{template: {reserved: {cpu: 1}, allocatable: {cpu: 1}}}"),
                "give reserved or allocatable, not both",
            ),
            (
                fault("{nodes: {group: web}, fault: disk-presure}"),
                "unknown fault \"disk-presure\"; did you mean \"disk-pressure\"?",
            ),
            (
                fault("{nodes: {group: web}, fault: xid, value: lost}"),
                "value \"lost\" is not 79, or 79,gpu-3",
            ),
            (
                fault("{nodes: {group: web}, fault: crash, duration: 10m, every: 1h, jitter: 50m}"),
                "a duration and jitter whose sum is below its interval",
            ),
            (
                group("{template: {devices: [{profile: nvidia, count: 8, model: H101}]}}"),
                "spec.template.devices[0].model: unknown model \"H101\"; known: A100-40GB, A100-80GB, H100-80GB",
            ),
            (fault("{nodes: {}, fault: crash}"), "spec.nodes"),
            (
                "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n".to_owned(),
                "apiVersion \"v1\" is not of sim.kstore.io/v1alpha1",
            ),
            (
                "apiVersion: sim.kstore.io/v1alpha1\nkind: NodeGrup\nmetadata: {name: a}\n".to_owned(),
                "unknown kind",
            ),
        ] {
            let found = problems(&text);
            assert!(found.len() == 1 && found[0].contains(expected), "{text}: {found:?}");
            assert!(found[0].starts_with("dc.yaml: document 1: "), "{found:?}");
        }
    }

    #[test]
    fn behaviour_and_load_are_checked_by_what_pods_understand() {
        for (text, expected) in [
            (
                of("PodBehavior", "{match: {images: [x]}, behavior: {ready-afte: 5s}}"),
                "spec.behavior: annotation kubelet-sim.kstore.io/ready-afte: unknown name \"ready-afte\", did you mean \"ready-after\"?",
            ),
            (of("PodBehavior", "{behavior: {}}"), "spec.behavior"),
            (
                of("ServiceLoad", "{service: web, curve: {constant: 1, hours: [2]}}"),
                "spec.curve: give one of",
            ),
            (of("ServiceLoad", "{service: web, curve: {constnat: 1}}"), "did you mean \"constant\"?"),
        ] {
            let found = problems(&text);
            assert!(found.len() == 1 && found[0].contains(expected), "{text}: {found:?}");
        }
    }
}
