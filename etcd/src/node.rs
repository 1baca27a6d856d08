//! The state that all services share: the store, and the identity of the only member.

use crate::limits;
use kstore_proto::etcd::etcdserverpb::ResponseHeader;
use kstore_store::{KeyRange, Range, RangeError, Revision, Store};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The raft term in every header. kstore has no raft; a new etcd of one member has this term.
pub(crate) const TERM: u64 = 2;

/// The etcd version whose API this is. Clients choose features by it: Kubernetes reads consistently from its cache from
/// 3.5.13 on.
pub const VERSION: &str = "3.6.0";

/// The cluster version, and the version of the storage format.
pub(crate) const CLUSTER_VERSION: &str = "3.6.0";

/// The only member of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) store: Store,
    /// Cluster id: identifies the data, constant over restarts.
    pub(crate) cluster: u64,
    /// Member id: constant over restarts, never zero.
    pub(crate) member: u64,
    /// Name of the member in the member list.
    pub(crate) name: Arc<str>,
    /// URL at which clients reach the member.
    pub(crate) url: Arc<str>,
    /// Permits for concurrent snapshots.
    pub(crate) snapshots: Arc<Semaphore>,
    /// Permits for concurrent hashes of the history.
    pub(crate) hashes: Arc<Semaphore>,
    /// Permits for watches.
    pub(crate) watches: Arc<Semaphore>,
    /// Shared by the clones of the node; each further clone is an open watch stream.
    streams: Arc<WatchStream>,
    /// Cancelled when streams must end.
    pub(crate) stop: CancellationToken,
}

/// Guard of an open watch stream. The number of clones counts the streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchStream(Arc<()>);

/// The one member of the cluster, as clients see it.
#[derive(Clone, Copy)]
pub(crate) struct Member<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// The URL at which clients reach it.
    pub(crate) url: &'a str,
}

impl Node {
    pub(crate) fn new(store: Store, member: Member<'_>, stop: CancellationToken) -> Self {
        let cluster = store.identity();
        // Any fixed function suffices, as long as the two ids differ.
        let member_id = cluster.rotate_left(32) ^ 0x6b73_746f_7265;
        let streams = Arc::default();
        let [snapshots, hashes, watches] = [limits::SNAPSHOTS, limits::HASHES, limits::WATCHES]
            .map(|permits| Arc::new(Semaphore::new(permits)));
        let (name, url) = (member.name.into(), member.url.into());
        let member = member_id.max(1);
        Self { store, cluster, member, name, url, snapshots, hashes, watches, streams, stop }
    }

    /// Counts a watch stream until the returned guard is dropped.
    pub(crate) fn watch_stream(&self) -> WatchStream {
        WatchStream::clone(&self.streams)
    }

    /// Number of open watch streams.
    pub(crate) fn watch_streams(&self) -> usize {
        Arc::strong_count(&self.streams.0) - 1
    }

    /// The header of a response at `revision`.
    pub(crate) fn header(&self, revision: Revision) -> Option<ResponseHeader> {
        let (cluster_id, member_id) = (self.cluster, self.member);
        Some(ResponseHeader { cluster_id, member_id, revision: revision.0, raft_term: TERM })
    }

    /// The header of a response at the current revision.
    pub(crate) fn header_now(&self) -> Option<ResponseHeader> {
        self.header(self.store.revision())
    }

    /// Number of keys in a range now.
    pub(crate) fn count(&self, keys: &KeyRange) -> Result<usize, RangeError> {
        let count = self.store.range(&Range { count_only: true, ..Range::new(keys.clone()) })?.count;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }
}
