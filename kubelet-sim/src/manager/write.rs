//! Writes of the manager and their results. Plain data: `apply` executes the writes, `Manager` takes the
//! results.

use crate::device::pool::Pool;
use crate::group::GROUP_LABEL;
use crate::limits::NODE_BATCH;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeStatus, PodStatus};
use k8s_openapi::api::resource::v1::DeviceClass;
use kstore_informer::{Key, Revision};
use serde_json::Value;
use std::sync::Arc;

/// One write, complete in itself.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    /// The status of a pod on `node`, if its uid is still `uid` and its revision still `base`.
    PodStatus {
        node: Arc<str>,
        key: Key,
        uid: Arc<str>,
        base: Revision,
        cause: Revision,
        status: Box<PodStatus>,
    },
    /// The removal of a pod on `node`, if its uid is still `uid`.
    RemovePod { node: Arc<str>, key: Key, uid: Arc<str>, cause: Revision },
    /// A new Node.
    CreateNode(Box<Node>),
    /// The status of a node.
    NodeStatus { node: String, status: Box<NodeStatus> },
    /// The lease of a node: created first if it is not known to exist, else renewed first, if its revision is still `base`. Another
    /// revision is that of another process with the same nodes.
    Lease { node: String, exists: bool, base: Option<Revision>, lease: Box<Lease> },
    /// The deletion of the Node object of a machine that is gone, if its uid is still `uid`, which is empty if it is unknown.
    DeleteNode { node: String, uid: String },
    /// The notice that the owner of a node's machine takes it back: a merge patch, if the Node's revision is still the one in it.
    ReclaimNotice { node: String, patch: Box<Value> },
    /// The removal of a node's startup taints, or its cordon: a merge patch, if the Node still has the revision or the uid in it.
    NodeSpec { node: String, patch: Box<Value> },
    /// Since when the times of a node's faults count, for a later process: a merge patch.
    FaultTimes { node: String, patch: Box<Value> },
    /// What the drivers of a node's devices publish, by the number of its change.
    Devices { node: String, version: u64, pools: Box<DevicePools> },
    /// The status of a NodeGroup.
    GroupStatus { group: String, status: Box<Value> },
    /// The size of a NodeGroup: its schedule, or a node that went away, changes it. Only if its revision is still `base`.
    GroupSize { group: String, base: Revision, replicas: u32 },
    /// The status of a NodeFault.
    FaultStatus { fault: String, status: Box<Value> },
    /// The status of a ServiceLoad.
    LoadStatus { load: Key, status: Box<Value> },
}

/// The devices of a node as their drivers publish them.
#[derive(Clone, Debug)]
pub(crate) struct DevicePools {
    /// The uid of the Node, which owns the slices.
    pub(crate) uid: String,
    /// DeviceClasses that are created if they do not exist.
    pub(crate) classes: Vec<DeviceClass>,
    /// The pools, whole.
    pub(crate) pools: Vec<Pool>,
}

impl Write {
    /// The node whose kubelet makes the write; empty for writes of the simulation itself.
    pub(crate) fn node(&self) -> &str {
        match self {
            Self::PodStatus { node, .. } | Self::RemovePod { node, .. } => node,
            // As in a cloud, the group makes the Node: a kubelet may not give itself every label.
            Self::CreateNode(node) if has_group(node) => "",
            Self::CreateNode(node) => node.metadata.name.as_deref().unwrap_or_default(),
            Self::NodeStatus { node, .. } | Self::Lease { node, .. } => node,
            // The machine's owner deletes the Node, not its kubelet; and drivers have users of their own.
            Self::DeleteNode { .. }
            | Self::ReclaimNotice { .. }
            | Self::FaultTimes { .. }
            | Self::NodeSpec { .. }
            | Self::Devices { .. }
            | Self::GroupStatus { .. }
            | Self::GroupSize { .. }
            | Self::FaultStatus { .. }
            | Self::LoadStatus { .. } => "",
        }
    }

    /// Whether it is a heartbeat or registration of a node, not a write about a pod.
    fn is_of_node(&self) -> bool {
        match self {
            Self::CreateNode(_) | Self::NodeStatus { .. } | Self::Lease { .. } => true,
            Self::PodStatus { .. } | Self::RemovePod { .. } => false,
            Self::DeleteNode { .. }
            | Self::ReclaimNotice { .. }
            | Self::FaultTimes { .. }
            | Self::NodeSpec { .. }
            | Self::Devices { .. }
            | Self::GroupStatus { .. }
            | Self::GroupSize { .. }
            | Self::FaultStatus { .. }
            | Self::LoadStatus { .. } => false,
        }
    }
}

fn has_group(node: &Node) -> bool {
    node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(GROUP_LABEL))
}

/// Groups writes into batches: writes of nodes together, up to [`NODE_BATCH`], and each write of a pod by
/// itself. A transaction has one set of causes; batching pods would attribute all causes to each pod.
pub(crate) fn batches(writes: Vec<Write>) -> Vec<Vec<Write>> {
    let (nodes, pods): (Vec<_>, Vec<_>) = writes.into_iter().partition(Write::is_of_node);
    let mut batches: Vec<Vec<Write>> = Vec::with_capacity(nodes.len().div_ceil(NODE_BATCH) + pods.len());
    for write in nodes {
        match batches.last_mut().filter(|batch| batch.len() < NODE_BATCH) {
            Some(batch) => batch.push(write),
            None => batches.push(vec![write]),
        }
    }
    batches.extend(pods.into_iter().map(|write| vec![write]));
    batches
}

/// Batches of one write each, for nodes with users of their own: a transaction has one user.
pub(crate) fn singles(writes: Vec<Write>) -> Vec<Vec<Write>> {
    writes.into_iter().map(|write| vec![write]).collect()
}

/// The result of an executed write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// The revision of the write; zero if unknown.
    pub(crate) revision: Revision,
    /// Whether the returned object has the status that was sent along.
    pub(crate) with_status: bool,
}

/// Why a write failed, which decides what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The object is gone: nothing follows.
    NotFound,
    /// The object is another or a newer one: wait until the informer shows it.
    Conflict,
    /// The object to create already exists: adopt it.
    AlreadyExists,
    /// A transient failure: retry after a wait.
    Passing(String),
    /// The server does not accept the write: retry after a long wait, since a user has to change something.
    Refused(String),
}
