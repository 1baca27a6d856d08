//! Which revision is the newest: a linearizable read, shared by all who wait for one. And [`Wanted`], by which open watches
//! hear that they should have come that far.
//!
//! One round reads the key that every commit of ours writes. The answer's header names the newest revision of the whole etcd;
//! if the key was last changed at that very revision, every watch of everything is about to deliver it. If not, somebody
//! else's key (or an expired lease) made the newest revision, and watches that do not see that key must ask how far they are.

use super::keys::Keys;
use super::link::{Link, Member};
use crate::limits::ETCD_READERS;
use crate::storage::ReadError;
use kstore_proto::etcd::etcdserverpb::RangeRequest;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::sync::{Notify, mpsc, oneshot};

type Reply = oneshot::Sender<Result<i64, ReadError>>;

/// Where readers ask.
pub(super) struct Newest(mpsc::Sender<Reply>);

/// Where their questions arrive.
pub(super) struct Questions(mpsc::Receiver<Reply>);

/// A place for readers to ask, and what [`answer`] takes.
pub(super) fn newest() -> (Newest, Questions) {
    let (ask, questions) = mpsc::channel(ETCD_READERS);
    (Newest(ask), Questions(questions))
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

/// Answers readers until the link is closed: one read at a time, for all that had asked when it began. Also asks by itself
/// when etcd has been away, to see whether it is back.
pub(super) async fn answer(link: Arc<Link>, keys: Keys, wanted: Arc<Wanted>, questions: &mut Questions) {
    let Questions(questions) = questions;
    let mut waiting = Vec::new();
    let rounds = async {
        loop {
            let asked = tokio::select! {
                biased;
                asked = questions.recv_many(&mut waiting, ETCD_READERS) => asked > 0,
                () = link.due() => true,
            };
            if !asked {
                return;
            }
            let answer = read(&link, &keys, &wanted).await;
            for reply in waiting.drain(..) {
                // Who does not wait any more does not mind.
                let _ = reply.send(answer.clone());
            }
        }
    };
    link.or_closed(rounds).await;
}

async fn read(link: &Link, keys: &Keys, wanted: &Wanted) -> Result<i64, ReadError> {
    let request = RangeRequest { key: keys.note(), keys_only: true, ..Default::default() };
    let ask = |member: Member| {
        let request = member.request(request.clone());
        async move { member.kv().range(request).await }
    };
    let answer = link.call(ask).await.map_err(|trouble| trouble.into_read(0, link.newest()))?;
    let newest = answer.header.map_or(0, |header| header.revision);
    link.heard(newest);
    if answer.kvs.first().is_none_or(|kv| kv.mod_revision < newest) {
        wanted.raise(newest);
    }
    Ok(newest)
}

/// A revision that watches of everything should come to, although they may see no change.
#[derive(Default)]
pub(super) struct Wanted {
    revision: AtomicI64,
    raised: Notify,
}

impl Wanted {
    fn raise(&self, revision: i64) {
        if self.revision.fetch_max(revision, Ordering::AcqRel) < revision {
            self.raised.notify_waiters();
        }
    }

    /// Resolves as soon as a later revision than this is wanted; says which.
    pub(super) async fn beyond(&self, revision: i64) -> i64 {
        loop {
            let mut raised = std::pin::pin!(self.raised.notified());
            raised.as_mut().enable();
            let wanted = self.revision.load(Ordering::Acquire);
            if wanted > revision {
                return wanted;
            }
            raised.await;
        }
    }
}
