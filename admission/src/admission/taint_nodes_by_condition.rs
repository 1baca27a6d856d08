//! TaintNodesByCondition: a new node starts with the taint `not-ready`, which the node lifecycle controller
//! removes once the node is ready, so that no pods are scheduled to it before.

use super::{Operation, Plugin, Subject};
use crate::admission::Cluster;
use kstore_api::status::Status;
use serde_json::{Value, json};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

pub(super) struct TaintNodesByCondition;

impl Plugin for TaintNodesByCondition {
    fn mutate(
        &self,
        _: &dyn Cluster,
        subject: &Subject<'_>,
        node: &mut Value,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        if !subject.is("", "nodes") || subject.operation != Operation::Create {
            return Ok(());
        }
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
