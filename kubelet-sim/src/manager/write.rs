//! What the manager wants written, and how a write can end. Plain data: `apply` carries it out, `Manager` takes the outcome.

use crate::limits::NODE_BATCH;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeStatus, PodStatus};
use kstore_informer::{Key, Revision};
use std::sync::Arc;

/// One write, complete in itself.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    /// The status of a pod on `node`, if it is still the one of `uid` and still at `base`.
    PodStatus {
        node: Arc<str>,
        key: Key,
        uid: Arc<str>,
        base: Revision,
        cause: Revision,
        status: Box<PodStatus>,
    },
    /// The end of a pod on `node`, if it is still the one of `uid`.
    RemovePod { node: Arc<str>, key: Key, uid: Arc<str>, cause: Revision },
    /// A new Node.
    CreateNode(Box<Node>),
    /// The status of a node.
    NodeStatus { node: String, status: Box<NodeStatus> },
    /// The lease of a node: created first if it is not known to exist, else renewed first.
    Lease { node: String, exists: bool, lease: Box<Lease> },
}

impl Write {
    /// The node whose kubelet writes it.
    pub(crate) fn node(&self) -> &str {
        match self {
            Self::PodStatus { node, .. } | Self::RemovePod { node, .. } => node,
            Self::CreateNode(node) => node.metadata.name.as_deref().unwrap_or_default(),
            Self::NodeStatus { node, .. } | Self::Lease { node, .. } => node,
        }
    }

    /// Whether it is a node's own heartbeat or registration, and not about a pod.
    fn is_of_node(&self) -> bool {
        match self {
            Self::CreateNode(_) | Self::NodeStatus { .. } | Self::Lease { .. } => true,
            Self::PodStatus { .. } | Self::RemovePod { .. } => false,
        }
    }
}

/// The writes in the batches in which they are carried out: those of nodes together, up to [`NODE_BATCH`], each of a pod by
/// itself. A transaction has one set of causes; for pods, the trace of one would show those of all.
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

/// The writes one by one, for nodes that have users of their own: a transaction has one user.
pub(crate) fn singles(writes: Vec<Write>) -> Vec<Vec<Write>> {
    writes.into_iter().map(|write| vec![write]).collect()
}

/// A write that was carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// The revision that it made; zero if unknown.
    pub(crate) revision: Revision,
    /// The object came back with the status that was sent along.
    pub(crate) with_status: bool,
}

/// A write that was not, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The object is gone: nothing.
    NotFound,
    /// The object is another or newer one: wait for the informer to show it.
    Conflict,
    /// The object to create is there: adopt it.
    AlreadyExists,
    /// A passing trouble: the same again after a wait.
    Passing(String),
    /// The server does not accept it: the same again after a long wait, for somebody has to change something.
    Refused(String),
}
