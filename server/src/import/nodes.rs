//! Nodes that a source lacks and flags add.

use super::{UnusableSource, files};
use crate::args::ImportArgs;
use kstore_api::object;
use serde_json::{Value, json};

/// The Nodes of `--nodes` and `--nodes-from`.
///
/// # Errors
/// The file cannot be read, or has objects of other kinds.
pub(super) fn further(args: &ImportArgs) -> Result<Vec<Value>, UnusableSource> {
    let mut nodes = match &args.nodes_from {
        None => Vec::new(),
        Some(file) => {
            let objects = files::read(file)?;
            if let Some(other) = objects.iter().find(|object| object::kind(object) != "Node") {
                let (file, kind) = (file.display(), object::kind(other));
                return Err(UnusableSource(format!(
                    "{file} of --nodes-from has a {kind:?}, which is no Node"
                )));
            }
            objects
        }
    };
    nodes.extend((0..args.nodes).map(|at| node(&format!("node-{at}"))));
    Ok(nodes)
}

/// A Node of a usual size.
fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}},
        "status": {"capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"}, "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"}}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_from_a_number_and_from_a_file_of_nodes() {
        let folder = tempfile::tempdir().unwrap();
        let (nodes_file, pods_file) = (folder.path().join("nodes.yaml"), folder.path().join("pods.yaml"));
        std::fs::write(&nodes_file, node("big").to_string()).unwrap();
        std::fs::write(&pods_file, r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}"#).unwrap();
        let args = |nodes, nodes_from| ImportArgs { nodes, nodes_from, ..ImportArgs::default() };
        let names = |args: &ImportArgs| {
            let name = |node: &Value| node["metadata"]["name"].as_str().unwrap().to_owned();
            further(args).unwrap().iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(names(&args(0, None)), [""; 0]);
        assert_eq!(names(&args(2, Some(nodes_file))), ["big", "node-0", "node-1"]);
        let refused = further(&args(0, Some(pods_file))).unwrap_err().to_string();
        assert!(refused.contains("has a \"Pod\""), "{refused}");
    }
}
