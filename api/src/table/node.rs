//! Table columns of nodes.
//!
//! Follows `printNode`.

use super::text::{NONE, UNKNOWN, join_or, list, of, or};
use super::{AGE, NAME, Printer, age, name, printer, text};
use crate::meta;
use serde_json::Value;
use std::collections::BTreeSet;

pub(crate) const NODE: Printer = printer(
    &[
        NAME,
        text("Status", "Whether the node is ready and schedulable."),
        text("Roles", "Roles in the node's labels."),
        AGE,
        text("Version", "Version of the kubelet."),
        text("Internal-IP", "Address inside the cluster.").wide(),
        text("External-IP", "Address outside the cluster.").wide(),
        text("OS-Image", "Operating system.").wide(),
        text("Kernel-Version", "Kernel and architecture.").wide(),
        text("Container-Runtime", "Container runtime.").wide(),
    ],
    |node, now| {
        let info = &node["status"]["nodeInfo"];
        vec![
            name(node),
            status(node).into(),
            join_or(roles(node), ",", NONE).into(),
            age(node, now),
            of(&info["kubeletVersion"]).into(),
            address(node, "InternalIP").into(),
            address(node, "ExternalIP").into(),
            or(&info["osImage"], UNKNOWN).into(),
            kernel(info).into(),
            or(&info["containerRuntimeVersion"], UNKNOWN).into(),
        ]
    },
);

/// Until 1.35 the kernel is shown alone.
pub(crate) const NODE_WITHOUT_ARCHITECTURE: Printer = printer(NODE.columns, |node, now| {
    let mut cells = (NODE.cells)(node, now);
    cells[KERNEL] = or(&node["status"]["nodeInfo"]["kernelVersion"], UNKNOWN).into();
    cells
});

/// Place of the cell of the kernel.
const KERNEL: usize = 8;

fn status(node: &Value) -> String {
    let ready = list(&node["status"]["conditions"]).iter().find(|c| c["type"] == "Ready");
    let word = match ready {
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if node["spec"]["unschedulable"] == true { format!("{word},SchedulingDisabled") } else { word.to_owned() }
}

fn roles(node: &Value) -> BTreeSet<&str> {
    let labels = meta::labels(node).into_iter().flatten();
    labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect()
}

fn address<'n>(node: &'n Value, kind: &str) -> &'n str {
    let addresses = list(&node["status"]["addresses"]);
    addresses.iter().find(|address| address["type"] == kind).map_or(NONE, |address| of(&address["address"]))
}

fn kernel(info: &Value) -> String {
    let kernel = or(&info["kernelVersion"], UNKNOWN);
    match of(&info["architecture"]) {
        "" => kernel.to_owned(),
        architecture => format!("{kernel} ({architecture})"),
    }
}
