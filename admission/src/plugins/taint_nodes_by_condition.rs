//! TaintNodesByCondition: a new node starts with the taint `not-ready`, which the node lifecycle controller
//! removes once the node is ready, so that no pods are scheduled to it before.

use crate::plugin::{Enabled, Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_registry::undecided::Undecided;
use serde_json::{Value, json};
use std::sync::Arc;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[("", "nodes")],
    mutates: &[Operation::Create],
    ..Row::new("TaintNodesByCondition", || Arc::new(TaintNodesByCondition))
};

struct TaintNodesByCondition;

impl Plugin for TaintNodesByCondition {
    fn mutate(&self, _: &Review<'_>, node: &mut Value) -> Result<(), Undecided> {
        if !node["spec"].is_object() {
            node["spec"] = json!({});
        }
        let taints = &mut node["spec"]["taints"];
        let present =
            |list: &Vec<Value>| list.iter().any(|t| t["key"] == NOT_READY && t["effect"] == "NoSchedule");
        match taints.as_array_mut() {
            Some(list) if present(list) => {}
            Some(list) => list.push(taint()),
            None => *taints = json!([taint()]),
        }
        Ok(())
    }
}

fn taint() -> Value {
    json!({ "key": NOT_READY, "effect": "NoSchedule" })
}
