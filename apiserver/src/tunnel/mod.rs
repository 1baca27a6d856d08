//! [`Tunnels`]: the tunnels that programs with nodes have opened, and the tunnel that reaches each node.
//! `rest::stream` uses the streams, `grpc::tunnel` accepts tunnels, and `dial` connects to pods for webhooks.

mod dial;
mod limits;
mod link;
mod stream;
#[cfg(test)]
mod tests;
mod window;

pub use dial::{DialError, Refused, TunnelDialer};
use kstore_proto::kstore::v1 as pb;
use kstore_registry::user::UserInfo;
pub use link::{Link, Outbox, Violation};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
pub use stream::{FromNode, NodeStream, Reader, Writer};
use tokio_util::task::TaskTracker;

/// The verb of the permission to serve nodes through a tunnel; it can be granted for nodes by name.
pub const VERB: &str = "create";
/// The resource and subresource of the permission, see [`VERB`].
pub const RESOURCE: (&str, &str) = ("nodes", "tunnel");

/// The prefix of user names that belong to one node. Such a user serves the node of its name only, even
/// if its roles allow more.
const NODE_USER: &str = "system:node:";

/// The tunnel of each node. One per apiserver; shared by `Arc`.
pub struct Tunnels {
    /// Claims on each node; the last one is in use. A node that reconnects replaces its old tunnel, which may
    /// be dead without having ended; when the new one ends, the old one is used again.
    nodes: Mutex<BTreeMap<String, Vec<Claim>>>,
    /// Whether a user may serve a node at present.
    may_serve: Box<MayServe>,
    tasks: TaskTracker,
}

/// Decides whether a user may serve the node of this name.
pub type MayServe = dyn Fn(&UserInfo, &str) -> bool + Send + Sync;

/// The claim of a tunnel that it reaches a node.
struct Claim {
    link: Arc<Link>,
    user: Arc<UserInfo>,
}

/// A claim was refused: another user's tunnel serves the node and keeps it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node \"{node}\" is served by a tunnel of user \"{owner}\" already")]
pub struct Claimed {
    /// The name of the node.
    pub node: String,
    /// The user of the tunnel that serves the node.
    pub owner: String,
}

/// A stream to a node was not opened: the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No tunnel claims to reach the node.
    #[error("no kubelet has a tunnel open for this node")]
    NoTunnel,
    /// The tunnel has as many streams as it may.
    #[error("the tunnel to this node carries too many streams already")]
    Busy,
    /// The user has as many streams on the tunnel as one user may.
    #[error("the tunnel to this node carries too many streams of this user already")]
    BusyForUser,
    /// The API server's own calls have as many streams on the tunnel as they may.
    #[error("the tunnel to this node carries too many calls of the API server already")]
    BusyWithCalls,
    /// The API server's calls to pods of this namespace have as many streams on the tunnel as those of one namespace may.
    #[error(
        "the tunnel to this node carries too many calls of the API server to pods of this namespace already"
    )]
    BusyWithCallsOfNamespace,
}

/// Whose share of a tunnel's streams a stream takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamOwner {
    /// A user, by name: streams that the user's requests open.
    User(Arc<str>),
    /// The API server, for its own calls to pods of this namespace: of webhooks, conversion, and API servers behind it.
    Calls(Arc<str>),
}

impl From<&str> for StreamOwner {
    fn from(user: &str) -> Self {
        Self::User(user.into())
    }
}

/// Whether the name of a user says that it belongs to one node.
pub fn is_node(user: &UserInfo) -> bool {
    user.username.starts_with(NODE_USER)
}

impl Tunnels {
    /// No tunnels yet. `may_serve` is called when a tunnel claims a node, and again when a stream to the node
    /// is opened.
    pub fn new(may_serve: impl Fn(&UserInfo, &str) -> bool + Send + Sync + 'static) -> Self {
        Self { nodes: Mutex::default(), may_serve: Box::new(may_serve), tasks: TaskTracker::new() }
    }

    /// Whether a user may serve a node now.
    pub fn allows(&self, user: &UserInfo, node: &str) -> bool {
        user.username.strip_prefix(NODE_USER).is_none_or(|own| own == node) && (self.may_serve)(user, node)
    }

    /// Sets the nodes that `link` reaches. Returns those that were refused: another user's tunnel serves them,
    /// and that user is still permitted. The link takes precedence over other tunnels of the same user to these
    /// nodes while it is open. The caller must check permissions first, see [`Tunnels::allows`].
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

    /// Removes all claims of a tunnel and ends its streams.
    pub fn end(&self, link: &Arc<Link>) {
        withdraw(&mut self.nodes.lock(), link);
        link.end();
    }

    /// Opens a stream of `owner` to the node that `open` names, and fills in its number. On return the node has
    /// not answered yet.
    ///
    /// # Errors
    /// If the node cannot be reached at present, or a bound on streams is reached.
    pub fn open(&self, owner: impl Into<StreamOwner>, open: pb::StreamOpen) -> Result<NodeStream, OpenError> {
        let link = {
            let mut nodes = self.nodes.lock();
            let claims = nodes.get_mut(&open.node).ok_or(OpenError::NoTunnel)?;
            // A revoked permission ends the claim, but not the tunnel, which may reach other nodes.
            claims.retain(|claim| self.allows(&claim.user, &open.node));
            claims.last().map(|claim| claim.link.clone())
        };
        link.ok_or(OpenError::NoTunnel)?.open(owner.into(), open)
    }

    /// Whether a tunnel claims to reach a node.
    pub fn reaches(&self, node: &str) -> bool {
        self.nodes.lock().get(node).is_some_and(|claims| !claims.is_empty())
    }

    /// Tasks that serve streams on upgraded connections.
    pub fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// The number of nodes that are reached.
    pub fn nodes(&self) -> usize {
        self.nodes.lock().len()
    }
}

/// Removes all claims of a tunnel.
fn withdraw(nodes: &mut BTreeMap<String, Vec<Claim>>, link: &Arc<Link>) {
    nodes.retain(|_, claims| {
        claims.retain(|claim| !Arc::ptr_eq(&claim.link, link));
        !claims.is_empty()
    });
}
