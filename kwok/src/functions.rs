//! KWOK's functions of templates. Pure: time and addresses are arguments.

use jiff::Timestamp;
use kstore_gotemplate::Functions;
use serde_json::{Value, json};

/// The functions of this module.
const NAMES: [&str; 14] = [
    "Quote",
    "Now",
    "StartTime",
    "YAML",
    "Version",
    "NodeConditions",
    "NodeIP",
    "NodeName",
    "NodePort",
    "NodeIPWith",
    "NodeIPsWith",
    "PodIP",
    "PodIPWith",
    "PodIPsWith",
];
/// The port of the simulated kubelets.
const KUBELET_PORT: u16 = 10250;
/// Conditions of a healthy node: type, status, reason and message.
const CONDITIONS: [(&str, &str, &str, &str); 5] = [
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"),
];

/// The addresses of simulated nodes and of their pods.
pub trait Addresses: Sync {
    /// The address of a node; `None` if it is not simulated here.
    fn node(&self, node: &str) -> Option<String>;
    /// The address of the pod with this uid on a node: the same for each call.
    fn pod(&self, node: &str, uid: &str) -> Option<String>;
}

/// KWOK's functions for an object, at a time.
#[derive(Clone, Copy)]
pub struct StageFunctions<'a> {
    /// The time that `Now` gives.
    pub now: Timestamp,
    /// The time that `StartTime` gives.
    pub start: Timestamp,
    /// The version that `Version` gives.
    pub version: &'a str,
    /// The object: what `NodeName`, `NodeIP` and `PodIP` are about.
    pub object: &'a Value,
    /// The addresses.
    pub addresses: &'a dyn Addresses,
}

impl StageFunctions<'_> {
    /// The node that the object is, or that the pod is on.
    fn node_name(&self) -> &str {
        let name = match self.object["kind"] == "Pod" {
            true => &self.object["spec"]["nodeName"],
            false => &self.object["metadata"]["name"],
        };
        name.as_str().unwrap_or_default()
    }

    /// The addresses of a pod: name of the node, whether it is in the node's network, and its uid.
    fn pod_ip(&self, arguments: &[&Value]) -> Option<String> {
        let node = arguments.first().and_then(|node| node.as_str()).unwrap_or_default();
        match arguments.get(1).is_some_and(|host| **host == Value::Bool(true)) {
            true => self.addresses.node(node),
            false => {
                let uid = arguments.get(2).and_then(|uid| uid.as_str()).unwrap_or_default();
                self.addresses.pod(node, uid).or_else(|| self.addresses.node(node))
            }
        }
    }
}

/// Names without values, to check templates.
pub(crate) struct Names;

impl Functions for Names {
    fn has(&self, name: &str) -> bool {
        NAMES.contains(&name)
    }
    fn call(&self, name: &str, _: &[&Value]) -> Result<Value, String> {
        Err(format!("{name} has no value here"))
    }
}

impl Functions for StageFunctions<'_> {
    fn has(&self, name: &str) -> bool {
        Names.has(name)
    }

    fn call(&self, name: &str, arguments: &[&Value]) -> Result<Value, String> {
        let first = arguments.first().copied().unwrap_or(&Value::Null);
        let text = |found: Option<String>| Value::String(found.unwrap_or_default());
        let list = |found: Option<String>| -> Value { found.into_iter().map(Value::String).collect() };
        let wants = |least: usize| match arguments.len() < least {
            true => Err(format!("{name} needs {least} arguments")),
            false => Ok(()),
        };
        Ok(match name {
            "Now" => Value::String(self.now.to_string()),
            "StartTime" => Value::String(self.start.to_string()),
            "Version" => Value::from(self.version),
            "NodeConditions" => CONDITIONS
                .iter()
                .map(|(kind, status, reason, message)| {
                    json!({ "type": kind, "status": status, "reason": reason, "message": message })
                })
                .collect(),
            "Quote" => {
                wants(1)?;
                Value::String(match first {
                    Value::String(_) => first.to_string(),
                    other => Value::String(other.to_string()).to_string(),
                })
            }
            "YAML" => {
                wants(1)?;
                Value::String(yaml(first, arguments.get(1).and_then(|indent| indent.as_u64()))?)
            }
            "NodeName" => Value::from(self.node_name()),
            "NodePort" => Value::from(KUBELET_PORT),
            "NodeIP" => text(self.addresses.node(self.node_name())),
            "PodIP" => {
                let uid = self.object["metadata"]["uid"].as_str().unwrap_or_default();
                text(self.addresses.pod(self.node_name(), uid))
            }
            "NodeIPWith" | "NodeIPsWith" => {
                wants(1)?;
                let found = self.addresses.node(first.as_str().unwrap_or_default());
                if name == "NodeIPWith" { text(found) } else { list(found) }
            }
            _ => {
                wants(3)?;
                let found = self.pod_ip(arguments);
                if name == "PodIPWith" { text(found) } else { list(found) }
            }
        })
    }
}

/// A value as YAML, each line indented by two spaces a level.
fn yaml(value: &Value, indent: Option<u64>) -> Result<String, String> {
    let text = serde_yaml_ng::to_string(value).map_err(|error| error.to_string())?;
    match indent {
        None | Some(0) => Ok(text),
        Some(levels @ 1..=64) => {
            let pad = " ".repeat(usize::try_from(levels).unwrap_or_default() * 2);
            Ok(format!("\n{text}").replace('\n', &format!("\n{pad}")))
        }
        Some(levels) => Err(format!("YAML indents by at most 64 levels, not {levels}")),
    }
}
