//! What may be stored and is probably not meant: texts for the `Warning` header.

use serde_json::Value;

use crate::field::Path;
use crate::kind::Resource;
use crate::meta;
use crate::name;
use crate::object::{int, list, text};

/// What to say to the writer of an object that is otherwise in order.
pub fn warnings(resource: &Resource, object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let template = match (resource.group, resource.kind) {
        ("", "Pod") => Some(("spec", &object["spec"])),
        ("", "PodTemplate") => Some(("template.spec", &object["template"]["spec"])),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("batch", "Job")
        | ("", "ReplicationController") => Some(("spec.template.spec", &object["spec"]["template"]["spec"])),
        ("batch", "CronJob") => {
            let spec = &object["spec"]["jobTemplate"]["spec"]["template"]["spec"];
            Some(("spec.jobTemplate.spec.template.spec", spec))
        }
        ("", "Endpoints") => {
            warnings.push(
                "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned(),
            );
            None
        }
        _ => None,
    };
    host_name(resource, meta::name(object), &mut warnings);
    if let Some((path, spec)) = template {
        let path = Path::new(path);
        for member in ["initContainers", "containers"] {
            let path = path.child(member);
            for (i, container) in list(&spec[member]).iter().enumerate() {
                container_warnings(&path.index(i), container, &mut warnings);
            }
        }
    }
    warnings
}

/// Names of pods become host names, which are labels.
fn host_name(resource: &Resource, own: &str, warnings: &mut Vec<String>) {
    let used = match (resource.group, resource.kind) {
        ("", "Pod") => "the Pod's hostname",
        ("apps", "Deployment" | "ReplicaSet") | ("", "ReplicationController") | ("batch", "Job") => {
            "Pod names and hostnames"
        }
        _ => return,
    };
    let faults = name::dns1123_label(own);
    if !own.is_empty() && !faults.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {used}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            faults.join(" ")
        ));
    }
}

fn container_warnings(path: &Path<'_>, container: &Value, warnings: &mut Vec<String>) {
    let variables = list(&container["env"]);
    let env = path.child("env");
    for (i, variable) in variables.iter().enumerate() {
        if variables[..i].iter().any(|earlier| earlier["name"] == variable["name"]) {
            warnings.push(format!(
                "{}: hides previous definition of {:?}, which may be dropped when using apply",
                env.index(i),
                text(&variable["name"])
            ));
        }
    }
    let (ports, at) = (list(&container["ports"]), path.child("ports"));
    let id = |port: &Value| {
        let host = text(&port["hostIP"]).to_owned();
        (int(&port["containerPort"]), text(&port["protocol"]).to_owned(), int(&port["hostPort"]), host)
    };
    for (i, port) in ports.iter().enumerate() {
        if let Some(first) = ports[..i].iter().position(|earlier| id(earlier) == id(port)) {
            warnings.push(format!("{}: duplicate port definition with {}", at.index(i), at.index(first)));
        }
    }
}
