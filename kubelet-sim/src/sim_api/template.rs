//! [`TemplateNode`]: what a node of a group would look like, for those who decide whether the group shall have one. Pure.

use crate::config::Config;
use crate::device::pool::pools;
use crate::device::publication::{SliceWrite, plan};
use crate::group::names::Placeholders;
use crate::group::spec::{GroupDoc, GroupSpec};
use crate::group::template::{shape, zone};
use crate::node::health::Health;
use crate::node::object::{self, Identity};
use jiff::Timestamp;
use kstore_api::lenient;
use kstore_api::version::Minor;
use serde_json::Value;

/// A node as its group would make it, ready and without pods.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateNode {
    /// The Node.
    pub node: Value,
    /// What the drivers of its devices would publish.
    pub slices: Vec<Value>,
}

/// A node as a NodeGroup with this spec would make it in a cluster of this version.
///
/// # Errors
/// What is wrong with the spec.
pub fn template_node(
    group: &str,
    spec: &Value,
    minor: Minor,
    now: Timestamp,
) -> Result<TemplateNode, String> {
    let doc: GroupDoc = lenient::from_value(spec).map_err(|error| format!("spec: {error}"))?;
    let spec = GroupSpec::check(&doc)?;
    let config = Config { nodes: 1, ..Config::default() }.of_release(minor);
    let name = format!("template-node-for-{group}");
    let of = Placeholders { group, index: 0, zone: zone(&doc, 0), draw: (0, 0) };
    let mut shape = shape(&config, &doc, &of, &name);
    // An autoscaler asks for nodes as they are once they have started.
    shape.startup_taints.clear();
    let identity = Identity::first(&config, &name, shape.pods())
        .ok_or("the networks have no space for a node of so many pods")?;
    let encoded = |error: serde_json::Error| error.to_string();
    let node =
        serde_json::to_value(object::node(&shape, &identity, &Health::default(), now)).map_err(encoded)?;
    let writes = plan(&name, "", &pools(&spec.devices, &name, &[], &[]), &[]);
    let slices = writes.into_iter().filter_map(|write| match write {
        SliceWrite::Create(slice) => Some(serde_json::to_value(slice)),
        SliceWrite::Replace(_) | SliceWrite::Delete(_) => None,
    });
    Ok(TemplateNode { node, slices: slices.collect::<Result<_, _>>().map_err(encoded)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_template_is_a_ready_node_of_the_group_with_its_devices() {
        let spec = json!({"zones": ["a"], "template": {"capacity": {"cpu": 96}, "devices": [{"profile": "nvidia", "count": 8}]}});
        let made = template_node("gpu", &spec, Minor::DEFAULT, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((&made.node["kind"], &made.node["apiVersion"]), (&json!("Node"), &json!("v1")));
        assert_eq!(made.node["metadata"]["labels"]["sim.kstore.io/group"], "gpu");
        assert_eq!(made.node["status"]["allocatable"]["cpu"], "96");
        let conditions = made.node["status"]["conditions"].as_array().unwrap();
        assert!(conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"));
        assert_eq!(made.slices[0]["spec"]["devices"].as_array().unwrap().len(), 8);
        assert_eq!(made.slices[0]["kind"], "ResourceSlice");
        let wrong = template_node("gpu", &json!({"namePattern": "x"}), Minor::DEFAULT, Timestamp::UNIX_EPOCH);
        assert!(wrong.unwrap_err().contains("must contain {index}"));
    }
}
