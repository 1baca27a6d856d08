//! Metrics as a `Table`, for `kubectl get nodes.metrics.k8s.io`, with the columns of Kubernetes' metrics
//! server. Pure.

use crate::request::RowObjects;
use kstore_api::meta;
use kstore_api::object::{list, text};
use kstore_api::quantity::Quantity;
use serde_json::{Value, json};

/// A table of NodeMetrics or PodMetrics.
pub(crate) fn table(objects: Vec<Value>, api_version: &str, rows: RowObjects) -> Value {
    let column = |name: &str, format: &str, description: &str| json!({"name": name, "type": "string", "format": format, "description": description, "priority": 0});
    let columns = [
        column("Name", "name", "Name of the node or pod"),
        column("cpu", "quantity", "Processors in use"),
        column("memory", "quantity", "Memory in use"),
        column("Window", "duration", "Time over which usage was measured"),
    ];
    let rows: Vec<Value> = objects.into_iter().map(|object| row(object, api_version, rows)).collect();
    json!({"kind": "Table", "apiVersion": api_version, "metadata": {}, "columnDefinitions": columns, "rows": rows})
}

fn row(object: Value, api_version: &str, rows: RowObjects) -> Value {
    let [cpu, memory] = ["cpu", "memory"].map(|resource| total(&object, resource).to_string());
    let cells = json!([meta::name(&object), cpu, memory, text(&object["window"])]);
    let mut row = json!({ "cells": cells });
    match rows {
        RowObjects::None => {}
        RowObjects::Metadata => {
            let kind = "PartialObjectMetadata";
            row["object"] = json!({"kind": kind, "apiVersion": api_version, "metadata": object["metadata"]});
        }
        RowObjects::Whole => row["object"] = object,
    }
    row
}

/// The total usage of a resource by a node, or by all containers of a pod.
fn total(object: &Value, resource: &str) -> Quantity {
    let own = std::iter::once(&object["usage"]);
    let usages = own.chain(list(&object["containers"]).iter().map(|container| &container["usage"]));
    let amounts = usages.filter_map(|usage| Quantity::parse(text(&usage[resource])).ok());
    amounts.fold(Quantity::ZERO, Quantity::add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_sums_of_containers() {
        let usage = |cpu: &str, memory: &str| json!({"usage": {"cpu": cpu, "memory": memory}});
        let pod = json!({"kind": "PodMetrics", "metadata": {"name": "web"}, "window": "15s",
            "containers": [usage("250m", "64Mi"), usage("1", "0"), usage("1n", "64Mi")]});
        let mut node = usage("0", "1Gi");
        (node["metadata"], node["window"]) = (json!({"name": "node-0"}), json!("15s"));
        let shown = table(vec![pod.clone(), node], "meta.k8s.io/v1", RowObjects::Metadata);
        let names: Vec<_> =
            list(&shown["columnDefinitions"]).iter().map(|column| text(&column["name"])).collect();
        assert_eq!(names, ["Name", "cpu", "memory", "Window"]);
        assert_eq!(shown["rows"][0]["cells"], json!(["web", "1250000001n", "128Mi", "15s"]));
        assert_eq!(shown["rows"][1]["cells"], json!(["node-0", "0", "1Gi", "15s"]));
        let partial = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "web"}});
        assert_eq!(shown["rows"][0]["object"], partial);
        let whole = table(vec![pod.clone()], "meta.k8s.io/v1", RowObjects::Whole);
        assert_eq!(whole["rows"][0]["object"], pod);
        let bare = table(vec![pod], "meta.k8s.io/v1", RowObjects::None);
        assert_eq!(bare["rows"][0]["object"], Value::Null);
    }
}
