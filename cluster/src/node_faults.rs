//! Faults of simulated nodes, for callers outside them: they are written into the annotation of the Node, where `kubectl` and forks of the
//! cluster find them, and are in force when the call returns.

use crate::control_plane::ControlPlane;
use kstore_client::{ApiError, Client, Gvr, Patch};
use kstore_kubelet_sim::{FaultChange, FaultError, FaultPhase, FaultReport};
use serde_json::{Value, json};

/// The annotation of a Node that has its faults.
const ANNOTATION: &str = "kubelet-sim.kstore.io/fault";
/// Tries of a change, each of which another write of the Node may have prevented.
const TRIES: usize = 16;

/// Why the faults of a node were not changed.
#[derive(Debug, thiserror::Error)]
pub enum NodeFaultError {
    /// No simulated node has this name, or none is simulated.
    #[error(transparent)]
    Node(#[from] FaultError),
    /// The node would have too many faults.
    #[error("{0}")]
    TooMany(String),
    /// The API server refuses.
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl ControlPlane {
    /// The faults of a simulated node: those of its annotation, of NodeFaults, and whether it is stopped.
    ///
    /// # Errors
    /// There is no such node, or no node is simulated.
    pub async fn node_faults(&self, node: &str) -> Result<Vec<FaultReport>, NodeFaultError> {
        Ok(self.nodes().faults(node).await?)
    }

    /// Changes the faults in the annotation of a simulated node, and returns those that it has then. `client` writes. To heal a node of all
    /// faults, or of `freeze`, also ends a [stop](kstore_kubelet_sim::Handle::stop_node); NodeFaults keep theirs until they are deleted.
    ///
    /// # Errors
    /// There is no such node, it would have too many faults, or the API server refuses.
    pub async fn change_node_faults(
        &self,
        client: &Client,
        node: &str,
        change: &FaultChange,
    ) -> Result<Vec<FaultReport>, NodeFaultError> {
        let handle = self.nodes();
        let api = client.dynamic(Gvr::new("", "v1", "nodes"));
        let mut tries = 0;
        loop {
            tries += 1;
            let before = api.get("", node).await?;
            let faults = handle.faults(node).await?.into_iter();
            let over = faults.filter(|one| one.by == "annotation" && one.state == FaultPhase::Over);
            let over: Vec<String> = over.map(|one| one.item).collect();
            let list = before["metadata"]["annotations"][ANNOTATION].as_str().unwrap_or_default();
            let changed = change.apply(list, &over).map_err(NodeFaultError::TooMany)?;
            let annotation = (!changed.is_empty()).then_some(&changed);
            let version = &before["metadata"]["resourceVersion"];
            let metadata = json!({ "resourceVersion": version, "annotations": { ANNOTATION: annotation } });
            match api.patch("", node, "", &Patch::Merge(json!({ "metadata": metadata }))).await {
                Ok(after) => {
                    handle.read_annotation(node, &changed, revision_of(&after)).await?;
                    break;
                }
                Err(error) if error.is_conflict() && tries < TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
        if matches!(change, FaultChange::Heal(name) if name.as_deref().is_none_or(|name| name == "freeze")) {
            handle.resume_node(node).await?;
        }
        Ok(handle.faults(node).await?)
    }
}

/// The revision of an object, which each one that the API server returns has.
fn revision_of(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}
