//! A watch that survives failures of etcd: when its stream breaks, it is opened again on whichever member
//! answers, after the last delivered revision. Only compaction past that revision ends it.

use super::batches::{Batches, WatchReply};
use super::call_error::CallError;
use super::keys::Keys;
use super::link::Link;
use super::newest::RequestedProgress;
use crate::limits::{ETCD_CALL, ETCD_PAUSE_MAX, ETCD_PROGRESS};
use crate::storage::{RawBatch, RawWatch, ReadError};
use async_trait::async_trait;
use bytes::Bytes;
use kstore_proto::etcd::etcdserverpb::watch_request::RequestUnion;
use kstore_proto::etcd::etcdserverpb::{
    WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

/// Requests that wait to be sent on a stream: the creation of the watch, and progress requests.
const REQUESTS: usize = 4;

/// The range of keys that is watched.
#[derive(Clone, Debug)]
pub(super) struct WatchedRange {
    pub start: Bytes,
    pub end: Bytes,
    /// Whether the range is all keys of the cluster: such a watch reports progress up to every requested
    /// revision.
    pub whole: bool,
}

/// A watch over one range of keys, with the stream that is open now.
pub(super) struct EtcdWatch {
    link: Arc<Link>,
    progress: Arc<RequestedProgress>,
    range: WatchedRange,
    batches: Batches,
    stream: Option<OpenStream>,
    ended: bool,
}

/// An open watch stream of one member.
struct OpenStream {
    member: usize,
    responses: Streaming<WatchResponse>,
    requests: mpsc::Sender<WatchRequest>,
    /// The latest revision for which progress was requested, and when.
    progress_requested: (i64, Instant),
}

/// The next event on a stream.
enum StreamEvent {
    Response(Result<Option<WatchResponse>, Status>),
    ProgressWanted(i64),
}

impl EtcdWatch {
    /// A watch of changes after revision `after`. Opens its stream when first polled.
    pub(super) fn new(
        link: Arc<Link>,
        keys: Keys,
        progress: Arc<RequestedProgress>,
        range: WatchedRange,
        after: i64,
    ) -> Self {
        Self { link, progress, range, batches: Batches::new(keys, after), stream: None, ended: false }
    }

    async fn open(&self) -> Result<OpenStream, (usize, CallError)> {
        let member = self.link.member().await.map_err(|error| (usize::MAX, error))?;
        let (requests, inbox) = mpsc::channel(REQUESTS);
        let created = requests.try_send(WatchRequest { request_union: Some(self.create()) });
        created.expect("a new channel has capacity");
        let mut client = member.watch();
        let opened = client.watch(member.request(ReceiverStream::new(inbox)));
        match tokio::time::timeout(ETCD_CALL, opened).await {
            Ok(Ok(response)) => {
                let (responses, progress_requested) = (response.into_inner(), (0, Instant::now()));
                Ok(OpenStream { member: member.index, responses, requests, progress_requested })
            }
            Ok(Err(status)) => Err((member.index, CallError::of(&status))),
            Err(_) => Err((member.index, CallError::late())),
        }
    }

    fn create(&self) -> RequestUnion {
        RequestUnion::CreateRequest(WatchCreateRequest {
            key: self.range.start.clone(),
            range_end: self.range.end.clone(),
            start_revision: self.batches.revision() + 1,
            prev_kv: true,
            fragment: true,
            ..Default::default()
        })
    }

    /// Opens the stream if needed, or handles one event of it.
    async fn step(&mut self) -> Result<(), ReadError> {
        let Some(stream) = &mut self.stream else {
            match self.open().await {
                Ok(open) => self.stream = Some(open),
                Err((member, error)) => self.broken(member, &error).await,
            }
            return Ok(());
        };
        let (member, progress) = (stream.member, self.range.whole.then_some(&*self.progress));
        match stream.event(progress, self.batches.revision()).await {
            StreamEvent::ProgressWanted(revision) => stream.ask(revision),
            StreamEvent::Response(Ok(Some(response))) => match self.batches.take(response) {
                WatchReply::Fragment | WatchReply::Changes => {}
                WatchReply::Created => self.link.answered(),
                WatchReply::Compacted(oldest) => return Err(ReadError::Compacted { oldest }),
                WatchReply::Cancelled(why) => {
                    let error = CallError::of_cancelled(&why);
                    self.broken(member, &error).await;
                }
            },
            StreamEvent::Response(Ok(None)) => {
                let why = "the watch ended".to_owned();
                self.broken(member, &CallError::Unavailable { sent: true, why }).await;
            }
            StreamEvent::Response(Err(status)) => self.broken(member, &CallError::of(&status)).await,
        }
        Ok(())
    }

    async fn broken(&mut self, member: usize, error: &CallError) {
        self.stream = None;
        self.batches.restart();
        if let CallError::Refused(refusal) = error {
            // The member works, but an operator must change something there, most likely permissions.
            tracing::error!(?refusal, "etcd refused a watch");
            tokio::time::sleep(ETCD_PAUSE_MAX).await;
            return;
        }
        self.link.failed(member, error);
        self.link.pause().await;
    }
}

impl OpenStream {
    async fn event(&mut self, progress: Option<&RequestedProgress>, revision: i64) -> StreamEvent {
        let (progress_requested, at) = self.progress_requested;
        let again = async {
            let Some(progress) = progress else { return std::future::pending().await };
            tokio::select! {
                biased;
                // Progress to this revision has not been requested yet.
                later = progress.beyond(progress_requested.max(revision)) => later,
                // Requested and not answered: members that are still catching up do not answer.
                earlier = async {
                    let earlier = progress.beyond(revision).await;
                    tokio::time::sleep_until(at + ETCD_PROGRESS).await;
                    earlier
                } => earlier,
            }
        };
        tokio::select! {
            biased;
            response = self.responses.message() => StreamEvent::Response(response),
            progress = again => StreamEvent::ProgressWanted(progress),
        }
    }

    fn ask(&mut self, revision: i64) {
        self.progress_requested = (revision, Instant::now());
        let union = RequestUnion::ProgressRequest(WatchProgressRequest {});
        // A full channel already holds a progress request.
        let _ = self.requests.try_send(WatchRequest { request_union: Some(union) });
    }
}

#[async_trait]
impl RawWatch for EtcdWatch {
    /// Cancel safe: batches that were read and not returned are kept.
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
