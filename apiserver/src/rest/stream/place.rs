//! The pod, container and node of a stream: Kubernetes' checks, in its order and with its texts.

use super::{Asked, Streams};
use kstore_api::kind;
use kstore_api::status::Status;
use serde_json::Value;

/// A pod and the node that it is bound to.
pub(super) struct Place {
    pub(super) pod: Value,
    /// The name of the node; "" if the pod is not bound.
    pub(super) node: String,
}

impl Streams {
    /// The pod of a request.
    pub(super) fn pod(&self, asked: &Asked<'_>) -> Result<Place, Status> {
        let target = &asked.target;
        let entry = self.pipeline.cache().get(target.resource, &target.key());
        let pod = entry.ok_or_else(|| Status::not_found(target.resource, &target.name))?.parse();
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        Ok(Place { pod, node })
    }

    /// The pod of a request, which must be bound to an existing node.
    pub(super) fn bound(&self, asked: &Asked<'_>) -> Result<Place, Status> {
        let place = self.pod(asked)?;
        if place.node.is_empty() {
            let text = format!("pod {} does not have a host assigned", asked.target.name);
            return Err(Status::bad_request(text));
        }
        self.check_node(&place.node)?;
        Ok(place)
    }

    /// Checks that the node exists, so that the server can reach it.
    pub(super) fn check_node(&self, node: &str) -> Result<(), Status> {
        let nodes = kind::lookup("", "v1", "nodes").expect("nodes are in the table");
        match self.pipeline.cache().get(nodes, &nodes.storage_key("", node)) {
            Some(_) => Ok(()),
            None => Err(Status::not_found(nodes, node)),
        }
    }
}

impl Place {
    /// The container named `asked`, or the only container of the pod if the name is empty.
    pub(super) fn container(&self, asked: &str) -> Result<String, Status> {
        let name = self.pod["metadata"]["name"].as_str().unwrap_or_default();
        let all = ["initContainers", "containers", "ephemeralContainers"];
        let names: Vec<&str> = all.into_iter().flat_map(|field| self.names(field)).collect();
        if !asked.is_empty() {
            return match names.contains(&asked) {
                true => Ok(asked.to_owned()),
                false => Err(Status::bad_request(format!("container {asked} is not valid for pod {name}"))),
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

    pub(super) fn uid(&self) -> &str {
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
        let place = |init: &[&str], regular: &[&str]| Place {
            pod: json!({"metadata": {"name": "web"},
                "spec": {"initContainers": containers(init), "containers": containers(regular)}}),
            node: String::new(),
        };
        let choose = "a container name must be specified for pod web, choose one of: [a b c]";
        let cases = [
            (place(&[], &["a"]), "", Ok("a")),
            (place(&["i"], &["a"]), "", Ok("a")),
            (place(&["i"], &["a"]), "i", Ok("i")),
            (place(&["a"], &["b", "c"]), "", Err(choose)),
            (place(&[], &["a"]), "x", Err("container x is not valid for pod web")),
        ];
        for (place, asked, expected) in cases {
            let got = place.container(asked).map_err(|status| (status.code, status.message));
            assert_eq!(got, expected.map(str::to_owned).map_err(|text| (400, text.to_owned())), "{asked}");
        }
    }
}
