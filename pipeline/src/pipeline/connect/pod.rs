//! The pod, container and node of a connection (exec, attach, port-forward, logs): Kubernetes' checks, in its order and with its texts.

use crate::pipeline::Pipeline;
use kstore_api::kind;
use kstore_api::status::Status;
use kstore_registry::request::Target;
use serde_json::Value;

/// A pod and the node that it is bound to.
pub struct PodLocation {
    /// The pod, as it is stored.
    pub pod: Value,
    /// The name of the node; "" if the pod is not bound.
    pub node: String,
}

impl Pipeline {
    /// The pod that a connection names.
    pub fn connected_pod(&self, target: &Target) -> Result<PodLocation, Status> {
        let entry = self.cache().get(target.resource, &target.key());
        let pod = entry.ok_or_else(|| Status::not_found(target.resource, &target.name))?.parse();
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        Ok(PodLocation { pod, node })
    }

    /// The pod that a connection names; it must be bound to an existing node.
    pub fn connected_bound_pod(&self, target: &Target) -> Result<PodLocation, Status> {
        let location = self.connected_pod(target)?;
        if location.node.is_empty() {
            let text = format!("pod {} does not have a host assigned", target.name);
            return Err(Status::bad_request(text));
        }
        self.check_connected_node(&location.node)?;
        Ok(location)
    }

    /// Checks that the node exists, so that the server can reach it.
    pub fn check_connected_node(&self, node: &str) -> Result<(), Status> {
        let nodes = kind::lookup("", "v1", "nodes").expect("nodes are in the table");
        match self.cache().get(nodes, &nodes.storage_key("", node)) {
            Some(_) => Ok(()),
            None => Err(Status::not_found(nodes, node)),
        }
    }
}

impl PodLocation {
    /// The container named `container`, or the only container of the pod if the name is empty.
    pub fn container(&self, container: &str) -> Result<String, Status> {
        let name = self.pod["metadata"]["name"].as_str().unwrap_or_default();
        let all = ["initContainers", "containers", "ephemeralContainers"];
        let names: Vec<&str> = all.into_iter().flat_map(|field| self.names(field)).collect();
        if !container.is_empty() {
            return match names.contains(&container) {
                true => Ok(container.to_owned()),
                false => {
                    Err(Status::bad_request(format!("container {container} is not valid for pod {name}")))
                }
            };
        }
        match self.names("containers").collect::<Vec<_>>().as_slice() {
            [only] => Ok((*only).to_owned()),
            [] => Err(Status::bad_request(format!("a container name must be specified for pod {name}"))),
            [_, ..] => Err(Status::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                names.join(" ")
            ))),
        }
    }

    fn names(&self, field: &str) -> impl Iterator<Item = &str> {
        let list = self.pod["spec"][field].as_array().into_iter().flatten();
        list.filter_map(|container| container["name"].as_str())
    }

    /// The uid of the pod.
    pub fn uid(&self) -> &str {
        self.pod["metadata"]["uid"].as_str().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_container_must_be_named_unless_there_is_only_one() {
        let containers =
            |names: &[&str]| -> Vec<Value> { names.iter().map(|n| json!({"name": n})).collect() };
        let location = |init: &[&str], regular: &[&str]| PodLocation {
            pod: json!({"metadata": {"name": "web"},
                "spec": {"initContainers": containers(init), "containers": containers(regular)}}),
            node: String::new(),
        };
        let choose = "a container name must be specified for pod web, choose one of: [a b c]";
        let cases = [
            (location(&[], &["a"]), "", Ok("a")),
            (location(&["i"], &["a"]), "", Ok("a")),
            (location(&["i"], &["a"]), "i", Ok("i")),
            (location(&["a"], &["b", "c"]), "", Err(choose)),
            (location(&[], &["a"]), "x", Err("container x is not valid for pod web")),
        ];
        for (location, container, expected) in cases {
            let got = location.container(container).map_err(|status| (status.code, status.message));
            assert_eq!(
                got,
                expected.map(str::to_owned).map_err(|text| (400, text.to_owned())),
                "{container}"
            );
        }
    }
}
