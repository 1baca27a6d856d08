//! What every service shares: the store, and who we are in the one-member cluster that clients see.

use std::sync::Arc;

use kstore_proto::etcd::etcdserverpb::ResponseHeader;
use kstore_store::{Revision, Store};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::snapshot;

/// The raft term in every header. There is no raft; this is what a fresh etcd of one member says.
pub(crate) const TERM: u64 = 2;

/// The etcd whose API this is. Clients decide by it what they ask for: Kubernetes reads consistently from its cache from
/// 3.5.13 on.
pub const VERSION: &str = "3.6.0";

/// The least version that all members have, and the form in which they store.
pub(crate) const CLUSTER_VERSION: &str = "3.6.0";

/// The one member.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) store: Store,
    /// Names the data: the same over restarts.
    pub(crate) cluster: u64,
    /// Names the member: the same over restarts, never zero.
    pub(crate) member: u64,
    /// Name of the member in the member list.
    pub(crate) name: Arc<str>,
    /// Where clients reach us.
    pub(crate) url: Arc<str>,
    /// Who may take a snapshot now.
    pub(crate) snapshots: Arc<Semaphore>,
    /// Shared by the clones of the node; its own clones are the streams.
    streams: Arc<WatchStream>,
    /// Streams end when this is cancelled.
    pub(crate) stop: CancellationToken,
}

/// Stands for a watch stream, so that it is counted: all are clones of the node's.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchStream(Arc<()>);

impl Node {
    pub(crate) fn new(store: Store, (name, url): (&str, &str), stop: CancellationToken) -> Self {
        let cluster = store.identity();
        // Any fixed function will do, as long as the two differ.
        let member = cluster.rotate_left(32) ^ 0x6b73_746f_7265;
        let (snapshots, streams) = (snapshot::places(), Arc::default());
        let (name, url) = (name.into(), url.into());
        Self { store, cluster, member: member.max(1), name, url, snapshots, streams, stop }
    }

    /// A watch stream begins; it is over when the answer is dropped.
    pub(crate) fn watch_stream(&self) -> WatchStream {
        WatchStream::clone(&self.streams)
    }

    /// How many watch streams there are.
    pub(crate) fn watch_streams(&self) -> usize {
        Arc::strong_count(&self.streams.0) - 1
    }

    /// The header of an answer given at `revision`.
    pub(crate) fn header(&self, revision: Revision) -> Option<ResponseHeader> {
        let (cluster_id, member_id) = (self.cluster, self.member);
        Some(ResponseHeader { cluster_id, member_id, revision: revision.0, raft_term: TERM })
    }

    /// The header of an answer given now.
    pub(crate) fn header_now(&self) -> Option<ResponseHeader> {
        self.header(self.store.revision())
    }
}
