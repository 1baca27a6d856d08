//! Annotations of this crate in objects of any kind: only those of pods, and of templates that pods are made from, have an effect.

use super::{ANNOTATION_PREFIX, check, ours};
use crate::limits::PROBLEMS_REPORTED;
use serde_json::Value;
use std::collections::BTreeMap;

/// Kinds with a template of pods, and the path of the template in them.
const TEMPLATES: [(&str, &[&str]); 8] = [
    ("CronJob", &["spec", "jobTemplate", "spec", "template"]),
    ("DaemonSet", &["spec", "template"]),
    ("Deployment", &["spec", "template"]),
    ("Job", &["spec", "template"]),
    ("PodTemplate", &["template"]),
    ("ReplicaSet", &["spec", "template"]),
    ("ReplicationController", &["spec", "template"]),
    ("StatefulSet", &["spec", "template"]),
];

/// Annotations that Nodes have, after the prefix: they mark a Node to be simulated, and ask for faults.
const OF_NODES: [&str; 2] = ["fault", "node"];

/// What is wrong with the annotations of this crate in an object of this kind, at most `PROBLEMS_REPORTED` sentences.
pub fn problems(kind: &str, object: &Value) -> Vec<String> {
    if kind == "Pod" {
        return of_pod("", object);
    }
    let path = TEMPLATES.iter().find(|(of, _)| *of == kind).map(|(_, path)| *path);
    let template = path.and_then(|path| path.iter().try_fold(object, |value, name| value.get(*name)));
    let prefix = path.map(|path| path.join(".")).unwrap_or_default();
    let found = annotations(object);
    let is_misplaced = |key: &str| kind != "Node" || !OF_NODES.contains(&key);
    let misplaced = ours(&found).filter(|(key, _)| is_misplaced(key)).map(|(key, _)| match path {
        Some(_) => format!(
            "annotation {ANNOTATION_PREFIX}{key} has no effect on a {kind}: put it into {prefix}.metadata.annotations"
        ),
        None => format!(
            "annotation {ANNOTATION_PREFIX}{key} has no effect on a {kind}: simulated nodes read the annotations of pods alone"
        ),
    });
    let inside = template.map(|template| of_pod(&format!("{prefix}: "), template)).unwrap_or_default();
    misplaced.chain(inside).take(PROBLEMS_REPORTED).collect()
}

/// The problems of a pod or template.
fn of_pod(prefix: &str, pod: &Value) -> Vec<String> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let containers = lists.iter().filter_map(|list| pod["spec"][*list].as_array()).flatten();
    let names: Vec<&str> = containers.filter_map(|container| container["name"].as_str()).collect();
    check(&annotations(pod), &names).iter().map(|bad| format!("{prefix}{bad}")).collect()
}

/// The annotations of this crate, with their prefix.
fn annotations(object: &Value) -> BTreeMap<String, String> {
    let all = object["metadata"]["annotations"].as_object().into_iter().flatten();
    let own = all.filter(|(key, _)| key.starts_with(ANNOTATION_PREFIX));
    own.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn annotations_beside_pods_and_templates_are_named_with_the_right_place() {
        let own = json!({"kubelet-sim.kstore.io/cpu": "1", "other": "x"});
        let spec = json!({"containers": [{"name": "c"}]});
        let template =
            json!({"metadata": {"annotations": {"kubelet-sim.kstore.io/c.cpu": "abc"}}, "spec": spec});
        let found = problems(
            "Deployment",
            &json!({"metadata": {"annotations": own}, "spec": {"template": template}}),
        );
        assert_eq!(
            found,
            [
                "annotation kubelet-sim.kstore.io/cpu has no effect on a Deployment: put it into spec.template.metadata.annotations",
                "spec.template: annotation kubelet-sim.kstore.io/c.cpu: \"abc\" is not a number of processors, such as 250m or 1.5",
            ]
        );
        let found = problems("CronJob", &json!({"spec": {"jobTemplate": {"spec": {"template": template}}}}));
        assert!(found[0].starts_with("spec.jobTemplate.spec.template: annotation"), "{found:?}");
        let found = problems("Node", &json!({"metadata": {"annotations": own}}));
        assert_eq!(
            found,
            [
                "annotation kubelet-sim.kstore.io/cpu has no effect on a Node: simulated nodes read the annotations of pods alone"
            ]
        );
        let of_node = json!({"kubelet-sim.kstore.io/fault": "crash", "kubelet-sim.kstore.io/node": ""});
        assert_eq!(problems("Node", &json!({"metadata": {"annotations": of_node}})), [""; 0]);
        assert_eq!(problems("Service", &json!({"metadata": {"annotations": of_node}})).len(), 2);
        let pod =
            json!({"metadata": {"annotations": {"kubelet-sim.kstore.io/imagepull": "1s"}}, "spec": spec});
        let found = problems("Pod", &pod);
        assert!(found[0].contains("did you mean \"image-pull\"?"), "{found:?}");
        assert_eq!(problems("Pod", &json!({"metadata": {"annotations": own}, "spec": spec})), [""; 0]);
        assert_eq!(problems("Pod", &json!({"metadata": null})), [""; 0]);
    }

    #[test]
    fn an_object_with_many_problems_yields_few_sentences() {
        let many: BTreeMap<String, String> =
            (0..100).map(|n| (format!("{ANNOTATION_PREFIX}x{n}"), String::new())).collect();
        let object = json!({"metadata": {"annotations": many}});
        assert_eq!(problems("Node", &object).len(), PROBLEMS_REPORTED);
        assert_eq!(problems("Pod", &object).len(), PROBLEMS_REPORTED);
    }
}
