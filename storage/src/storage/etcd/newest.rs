//! The newest revision: a linearizable read that concurrent readers share. And [`RequestedProgress`], the
//! revision that open watches should report progress to.
//!
//! One round reads the key that every commit of this cluster writes. The response's header has the newest
//! revision of the whole etcd. If the key was last changed at that revision, every watch of all keys is about
//! to deliver it. Otherwise another client's key (or an expired lease) made the newest revision, and watches
//! that do not see that key must ask etcd for their progress.

use super::keys::Keys;
use super::link::{Link, Member};
use crate::limits::ETCD_READERS;
use crate::storage::ReadError;
use kstore_proto::etcd::etcdserverpb::RangeRequest;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::sync::{Notify, mpsc, oneshot};

type Reply = oneshot::Sender<Result<i64, ReadError>>;

/// Sends readers' requests for the newest revision.
pub(super) struct Newest(mpsc::Sender<Reply>);

/// Receives the requests of readers.
pub(super) struct ReadRequests(mpsc::Receiver<Reply>);

/// The sender for readers, and the receiver for [`serve_readers`].
pub(super) fn newest() -> (Newest, ReadRequests) {
    let (ask, requests) = mpsc::channel(ETCD_READERS);
    (Newest(ask), ReadRequests(requests))
}

impl Newest {
    /// The newest revision at some moment after this call began.
    pub(super) async fn ask(&self) -> Result<i64, ReadError> {
        let gone = || ReadError::Unavailable("the storage is closed".into());
        let (reply, answer) = oneshot::channel();
        self.0.send(reply).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

/// Serves readers until the link is closed: one read at a time, for all requests that were queued when it
/// began. Also probes an unavailable etcd.
pub(super) async fn serve_readers(
    link: Arc<Link>,
    keys: Keys,
    progress: Arc<RequestedProgress>,
    requests: &mut ReadRequests,
) {
    let ReadRequests(requests) = requests;
    let mut waiting = Vec::new();
    let rounds = async {
        loop {
            let has_requests = tokio::select! {
                biased;
                has_requests = requests.recv_many(&mut waiting, ETCD_READERS) => has_requests > 0,
                () = link.probe_due() => true,
            };
            if !has_requests {
                return;
            }
            let answer = read(&link, &keys, &progress).await;
            for reply in waiting.drain(..) {
                // A reader that stopped waiting has dropped its receiver.
                let _ = reply.send(answer.clone());
            }
        }
    };
    link.or_closed(rounds).await;
}

async fn read(link: &Link, keys: &Keys, progress: &RequestedProgress) -> Result<i64, ReadError> {
    let request = RangeRequest { key: keys.note(), keys_only: true, ..Default::default() };
    let ask = |member: Member| {
        let request = member.request(request.clone());
        async move { member.kv().range(request).await }
    };
    let answer = link.call(ask).await.map_err(|error| error.into_read(0, link.newest()))?;
    let newest = answer.header.map_or(0, |header| header.revision);
    link.saw_revision(newest);
    if answer.kvs.first().is_none_or(|kv| kv.mod_revision < newest) {
        progress.raise(newest);
    }
    Ok(newest)
}

/// The revision up to which watches of all keys should report progress, although they may see no change.
#[derive(Default)]
pub(super) struct RequestedProgress {
    revision: AtomicI64,
    raised: Notify,
}

impl RequestedProgress {
    fn raise(&self, revision: i64) {
        if self.revision.fetch_max(revision, Ordering::AcqRel) < revision {
            self.raised.notify_waiters();
        }
    }

    /// Resolves to the requested revision as soon as it is greater than `revision`.
    pub(super) async fn beyond(&self, revision: i64) -> i64 {
        loop {
            let mut raised = std::pin::pin!(self.raised.notified());
            raised.as_mut().enable();
            let progress = self.revision.load(Ordering::Acquire);
            if progress > revision {
                return progress;
            }
            raised.await;
        }
    }
}
