//! The way from here to the nodes: tunnels that the nodes' side opened, and which node is reached through which. Not what goes
//! through them (`rest::stream`), and not how a tunnel arrives (`grpc::tunnel`).

mod link;
mod stream;
#[cfg(test)]
mod tests;
mod window;

pub use link::{Link, Outbox, Violation};
pub use stream::{FromNode, NodeStream, Reader, Writer};

use crate::authn::UserInfo;
use kstore_proto::kstore::v1 as pb;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::task::TaskTracker;

/// The verb and the resource of the permission to serve nodes through a tunnel; it can be given for nodes by name.
pub const VERB: &str = "create";
/// See [`VERB`].
pub const RESOURCE: (&str, &str) = ("nodes", "tunnel");

/// What a user name of one node begins with. Such a user serves the node of its name and no other, whatever roles say.
const NODE_USER: &str = "system:node:";

/// Which tunnel reaches which node. One per apiserver; shared by `Arc`.
pub struct Tunnels {
    /// The claims on each node, the one in use last: a node that connects anew replaces its old tunnel, which may not be known to be
    /// dead yet, and falls back to it.
    nodes: Mutex<BTreeMap<String, Vec<Claim>>>,
    /// Whether a user may serve a node now.
    may_serve: Box<MayServe>,
    tasks: TaskTracker,
}

/// Judges whether a user may serve the node of this name.
pub type MayServe = dyn Fn(&UserInfo, &str) -> bool + Send + Sync;

/// A tunnel that says that it reaches a node.
struct Claim {
    link: Arc<Link>,
    user: Arc<UserInfo>,
}

/// A node is served through another user's tunnel, which keeps it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node \"{node}\" is served by a tunnel of user \"{owner}\" already")]
pub struct Claimed {
    /// The node.
    pub node: String,
    /// Whose tunnel serves it.
    pub owner: String,
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
    /// No tunnels yet. `may_serve` is asked when a tunnel claims a node, and again whenever a stream to the node is opened.
    pub fn new(may_serve: impl Fn(&UserInfo, &str) -> bool + Send + Sync + 'static) -> Self {
        Self { nodes: Mutex::default(), may_serve: Box::new(may_serve), tasks: TaskTracker::new() }
    }

    /// Whether a user may serve a node now.
    pub fn allows(&self, user: &UserInfo, node: &str) -> bool {
        user.username.strip_prefix(NODE_USER).is_none_or(|own| own == node) && (self.may_serve)(user, node)
    }

    /// From now on `link` reaches these nodes and no others, except those that are returned: a tunnel of another user, who still may,
    /// reaches them. Where another tunnel of the same user reached one, this one replaces it for as long as it is open. Permissions
    /// are the caller's to check first, see [`Tunnels::allows`].
    pub fn serve(&self, link: &Arc<Link>, user: &Arc<UserInfo>, names: Vec<String>) -> Vec<Claimed> {
        let mut nodes = self.nodes.lock();
        withdraw(&mut nodes, link);
        let mut refused = Vec::new();
        for name in names {
            if let Some(claims) = nodes.get_mut(&name) {
                claims.retain(|claim| self.allows(&claim.user, &name));
                if let Some(claim) = claims.iter().find(|claim| claim.user.username != user.username) {
                    refused.push(Claimed { owner: claim.user.username.clone(), node: name });
                    continue;
                }
            }
            nodes.entry(name).or_default().push(Claim { link: link.clone(), user: user.clone() });
        }
        refused
    }

    /// The tunnel has ended: nothing is reached through it any more, and its streams end.
    pub fn end(&self, link: &Arc<Link>) {
        withdraw(&mut self.nodes.lock(), link);
        link.end();
    }

    /// Opens a stream to the node that `open` names; its number is filled in here. The node has not answered yet on return.
    ///
    /// # Errors
    /// When the node cannot be reached now.
    pub fn open(&self, open: pb::StreamOpen) -> Result<NodeStream, OpenError> {
        let link = {
            let mut nodes = self.nodes.lock();
            let claims = nodes.get_mut(&open.node).ok_or(OpenError::NoTunnel)?;
            // A permission that was taken back ends the claim, not the tunnel, which may reach other nodes.
            claims.retain(|claim| self.allows(&claim.user, &open.node));
            claims.last().map(|claim| claim.link.clone())
        };
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

/// Takes back all claims of a tunnel.
fn withdraw(nodes: &mut BTreeMap<String, Vec<Claim>>, link: &Arc<Link>) {
    nodes.retain(|_, claims| {
        claims.retain(|claim| !Arc::ptr_eq(&claim.link, link));
        !claims.is_empty()
    });
}
