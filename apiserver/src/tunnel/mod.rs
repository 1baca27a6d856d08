//! The way from here to the nodes: tunnels that the nodes' side opened, and which node is reached through which. Not what goes
//! through them (`rest::stream`), and not how a tunnel arrives (`grpc::tunnel`).

mod link;
mod stream;
#[cfg(test)]
mod tests;
mod window;

pub use link::{Link, Outbox, Violation};
pub use stream::{FromNode, NodeStream, Reader, Writer};

use kstore_proto::kstore::v1 as pb;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::task::TaskTracker;

/// Who reaches which node. One per apiserver; shared by `Arc`.
#[derive(Default)]
pub struct Tunnels {
    nodes: Mutex<BTreeMap<String, Arc<Link>>>,
    tasks: TaskTracker,
}

/// Why a stream to a node was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Nobody says that it reaches this node.
    #[error("no kubelet has a tunnel open for this node")]
    NoTunnel,
    /// The tunnel carries as many streams as it may.
    #[error("the tunnel to this node carries too many streams already")]
    Busy,
}

impl Tunnels {
    /// From now on `link` reaches these nodes and no others. Where another tunnel reached one of them, this one replaces it.
    pub fn serve(&self, link: &Arc<Link>, names: Vec<String>) {
        let mut nodes = self.nodes.lock();
        nodes.retain(|_, other| !Arc::ptr_eq(other, link));
        nodes.extend(names.into_iter().map(|name| (name, link.clone())));
    }

    /// The tunnel has ended: nothing is reached through it any more, and its streams end.
    pub fn end(&self, link: &Arc<Link>) {
        self.serve(link, Vec::new());
        link.end();
    }

    /// Opens a stream to the node that `open` names; its number is filled in here. The node has not answered yet on return.
    ///
    /// # Errors
    /// When the node cannot be reached now.
    pub fn open(&self, open: pb::StreamOpen) -> Result<NodeStream, OpenError> {
        let link = self.nodes.lock().get(&open.node).cloned();
        link.ok_or(OpenError::NoTunnel)?.open(open)
    }

    /// What carries streams on connections that are no longer HTTP.
    pub fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// How many nodes are reached.
    pub fn nodes(&self) -> usize {
        self.nodes.lock().len()
    }
}
