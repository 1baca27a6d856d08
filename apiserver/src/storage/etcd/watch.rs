//! A watch on etcd that survives etcd: when its stream breaks it is opened again, on whichever member answers, behind the last
//! revision that was handed out. Only compaction past that revision ends it.

use super::batches::{Batches, Heard};
use super::keys::Keys;
use super::link::Link;
use super::newest::Wanted;
use super::trouble::Trouble;
use crate::limits::{ETCD_CALL, ETCD_PAUSE_MAX, ETCD_PROGRESS};
use crate::storage::{RawBatch, RawWatch, ReadError};
use async_trait::async_trait;
use bytes::Bytes;
use kstore_proto::etcd::etcdserverpb::{
    WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse, watch_request::RequestUnion,
};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

/// Requests that wait to be sent on a stream: the one that creates the watch, and questions how far it is.
const REQUESTS: usize = 4;

/// What is watched.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub start: Bytes,
    pub end: Bytes,
    /// Everything of ours: such a watch comes to every revision that somebody wants.
    pub whole: bool,
}

/// See the module.
pub(super) struct EtcdWatch {
    link: Arc<Link>,
    wanted: Arc<Wanted>,
    place: Place,
    batches: Batches,
    stream: Option<Open>,
    ended: bool,
}

/// A stream of one member.
struct Open {
    member: usize,
    responses: Streaming<WatchResponse>,
    requests: mpsc::Sender<WatchRequest>,
    /// The latest revision that the member was asked about, and when.
    asked: (i64, Instant),
}

/// What a stream is waited for.
enum Event {
    Response(Result<Option<WatchResponse>, Status>),
    Wanted(i64),
}

impl EtcdWatch {
    /// Of changes after revision `after`. Opens when first asked.
    pub(super) fn new(link: Arc<Link>, keys: Keys, wanted: Arc<Wanted>, place: Place, after: i64) -> Self {
        Self { link, wanted, place, batches: Batches::new(keys, after), stream: None, ended: false }
    }

    async fn open(&self) -> Result<Open, (usize, Trouble)> {
        let member = self.link.member().await.map_err(|trouble| (usize::MAX, trouble))?;
        let (requests, inbox) = mpsc::channel(REQUESTS);
        let created = requests.try_send(WatchRequest { request_union: Some(self.create()) });
        created.expect("a new channel has room");
        let mut client = member.watch();
        let opened = client.watch(member.request(ReceiverStream::new(inbox)));
        match tokio::time::timeout(ETCD_CALL, opened).await {
            Ok(Ok(response)) => {
                let (responses, asked) = (response.into_inner(), (0, Instant::now()));
                Ok(Open { member: member.index, responses, requests, asked })
            }
            Ok(Err(status)) => Err((member.index, Trouble::of(&status))),
            Err(_) => Err((member.index, Trouble::late())),
        }
    }

    fn create(&self) -> RequestUnion {
        RequestUnion::CreateRequest(WatchCreateRequest {
            key: self.place.start.clone(),
            range_end: self.place.end.clone(),
            start_revision: self.batches.revision() + 1,
            prev_kv: true,
            fragment: true,
            ..Default::default()
        })
    }

    /// One step towards the next batch.
    async fn step(&mut self) -> Result<(), ReadError> {
        let Some(stream) = &mut self.stream else {
            match self.open().await {
                Ok(open) => self.stream = Some(open),
                Err((member, trouble)) => self.broken(member, &trouble).await,
            }
            return Ok(());
        };
        let (member, wanted) = (stream.member, self.place.whole.then_some(&*self.wanted));
        match stream.event(wanted, self.batches.revision()).await {
            Event::Wanted(revision) => stream.ask(revision),
            Event::Response(Ok(Some(response))) => match self.batches.take(response) {
                Heard::Nothing | Heard::Changes => {}
                Heard::Created => self.link.answered(),
                Heard::Compacted(oldest) => return Err(ReadError::Compacted { oldest }),
                Heard::Cancelled(why) => {
                    let trouble = Trouble::of_cancelled(&why);
                    self.broken(member, &trouble).await;
                }
            },
            Event::Response(Ok(None)) => {
                let why = "the watch ended".to_owned();
                self.broken(member, &Trouble::Away { sent: true, why }).await;
            }
            Event::Response(Err(status)) => self.broken(member, &Trouble::of(&status)).await,
        }
        Ok(())
    }

    async fn broken(&mut self, member: usize, trouble: &Trouble) {
        self.stream = None;
        self.batches.restart();
        if let Trouble::Refused(refusal) = trouble {
            // The member lives; what is wrong (rights, most likely) somebody must mend there.
            tracing::error!(?refusal, "etcd refuses a watch");
            tokio::time::sleep(ETCD_PAUSE_MAX).await;
            return;
        }
        self.link.failed(member, trouble);
        self.link.pause().await;
    }
}

impl Open {
    async fn event(&mut self, wanted: Option<&Wanted>, revision: i64) -> Event {
        let (asked, at) = self.asked;
        let again = async {
            let Some(wanted) = wanted else { return std::future::pending().await };
            tokio::select! {
                biased;
                // Not asked about yet.
                later = wanted.beyond(asked.max(revision)) => later,
                // Asked, and not answered: members that are still catching up do not answer.
                earlier = async {
                    let earlier = wanted.beyond(revision).await;
                    tokio::time::sleep_until(at + ETCD_PROGRESS).await;
                    earlier
                } => earlier,
            }
        };
        tokio::select! {
            biased;
            response = self.responses.message() => Event::Response(response),
            wanted = again => Event::Wanted(wanted),
        }
    }

    fn ask(&mut self, revision: i64) {
        self.asked = (revision, Instant::now());
        let union = RequestUnion::ProgressRequest(WatchProgressRequest {});
        // If there is no room, questions are on their way.
        let _ = self.requests.try_send(WatchRequest { request_union: Some(union) });
    }
}

#[async_trait]
impl RawWatch for EtcdWatch {
    /// Cancel safe: what was read and not returned is kept.
    async fn next(&mut self) -> Option<Result<RawBatch, ReadError>> {
        let link = self.link.clone();
        loop {
            if let Some(batch) = self.batches.next() {
                return Some(Ok(batch));
            }
            if self.ended {
                return None;
            }
            if let Err(error) = link.or_closed(self.step()).await? {
                self.ended = true;
                return Some(Err(error));
            }
        }
    }
}
