//! The call Watch over the REST API: a list, and the changes after it. [`WatchConnections`] keeps watches away from the connection of
//! other requests: a server bounds the streams of a connection.

use super::lists::Pages;
use super::requests::{self, Selection};
use super::{Caller, KubeApi, Streamed, unsupported};
use crate::client::Transport;
use crate::error::to_grpc;
use crate::limits::{KUBE_CONNECTIONS, KUBE_PROGRESS, KUBE_STREAMS};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use http_body_util::BodyExt as _;
use kstore_api::status::Status;
use kstore_informer::kube::{KubeSource, Raw, ResponseBody};
use kstore_informer::{Frame, Frames, Key, ListerWatcher as _, Object, Revision, SourceError, Start};
use kstore_proto::kstore::v1 as pb;
use parking_lot::Mutex;
use pb::watch_event::Type;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tonic::{Response, Status as GrpcStatus};
use tower::ServiceExt as _;

/// Connections for watches, each made when those before it are full.
pub(super) struct WatchConnections {
    connect: Box<dyn Fn() -> Transport + Send + Sync>,
    made: Mutex<Vec<(Transport, Arc<Semaphore>)>>,
}

impl WatchConnections {
    pub(super) fn new(connect: impl Fn() -> Transport + Send + Sync + 'static) -> Self {
        Self { connect: Box::new(connect), made: Mutex::default() }
    }

    /// A connection with space for a watch, which ends with the permit.
    ///
    /// # Errors
    ///
    /// All connections are full.
    fn open(&self) -> Result<(Transport, OwnedSemaphorePermit), GrpcStatus> {
        let mut made = self.made.lock();
        for (transport, streams) in &*made {
            if let Ok(permit) = Arc::clone(streams).try_acquire_owned() {
                return Ok((transport.clone(), permit));
            }
        }
        if made.len() >= KUBE_CONNECTIONS {
            let text = format!("this process has {} watches open", KUBE_CONNECTIONS * KUBE_STREAMS);
            return Err(to_grpc(&Status::too_many_requests(text, 10)));
        }
        let (transport, streams) = ((self.connect)(), Arc::new(Semaphore::new(KUBE_STREAMS)));
        let permit = Arc::clone(&streams).try_acquire_owned().expect("no one else knows the semaphore");
        made.push((transport.clone(), streams));
        Ok((transport, permit))
    }
}

/// Opens the watch of a message.
pub(super) async fn serve(
    api: &KubeApi,
    caller: Caller,
    message: pb::WatchRequest,
) -> Result<Response<Streamed<pb::WatchBatch>>, GrpcStatus> {
    let mut selectors = message.selectors.into_iter();
    let (Some(selector), None) = (selectors.next(), selectors.next()) else {
        return Err(to_grpc(&unsupported("a watch of this API server is of one kind: it has one selector")));
    };
    let reference = requests::present(selector.r#ref.clone())?;
    let (connection, _permit) = api.watches.open()?;
    let changes = Changes {
        source: source(&reference, &selector, connection, &caller)?,
        position: message.after_revision,
        has_progress: message.progress,
        _permit,
    };
    if message.after_revision > 0 {
        return Ok(Response::new(Box::pin(changes.stream().await?)));
    }
    let selection = Selection {
        labels: selector.label_selector,
        fields: selector.field_selector,
        ..Selection::default()
    };
    let pages = Pages::new(api.clone(), caller, reference, selection);
    Ok(Response::new(initial(pages, changes).await?))
}

/// A stream that begins with the objects of a list. The first page is here when this returns.
async fn initial(mut pages: Pages, changes: Changes) -> Result<Streamed<pb::WatchBatch>, GrpcStatus> {
    let first = pages.next().await?;
    let state = InitialState { pages, next: first, changes };
    let state = stream::unfold(Phase::Listing(Box::new(state)), |phase| async move {
        match phase {
            Phase::Listing(state) => match state.advance().await {
                Ok((batch, phase)) => Some((Ok(stream::iter([Ok(batch)]).boxed()), phase)),
                Err(error) => Some((Err(error), Phase::Ended)),
            },
            Phase::Listed(changes) => Some((changes.stream().await, Phase::Ended)),
            Phase::Ended => None,
        }
    });
    let batches = state.flat_map(|part| match part {
        Ok(batches) => batches,
        Err(error) => stream::iter([Err(error)]).boxed(),
    });
    Ok(Box::pin(batches))
}

/// The parts of a stream that begins with a list.
enum Phase {
    Listing(Box<InitialState>),
    Listed(Box<Changes>),
    Ended,
}

/// The initial state of a watch, while it is sent.
struct InitialState {
    pages: Pages,
    /// The page to send.
    next: Option<pb::ListChunk>,
    changes: Changes,
}

impl InitialState {
    /// The batch of the page that is here, and what follows it.
    async fn advance(mut self: Box<Self>) -> Result<(pb::WatchBatch, Phase), GrpcStatus> {
        let chunk = self.next.take().unwrap_or_default();
        let put = |json: bytes::Bytes| {
            let revision = RawObject::read(&json).map_or(chunk.revision, |object| wire(object.revision));
            pb::WatchEvent { r#type: Type::Put.into(), selector: 0, json, revision }
        };
        let events = chunk.items.into_iter().map(put).collect();
        self.next = self.pages.next().await?;
        let initial_done = self.next.is_none();
        let batch = pb::WatchBatch { events, revision: chunk.revision, initial_done };
        if !initial_done {
            return Ok((batch, Phase::Listing(self)));
        }
        self.changes.position = chunk.revision;
        Ok((batch, Phase::Listed(Box::new(self.changes))))
    }
}

/// The changes of a resource after a position.
struct Changes {
    source: KubeSource<RawObject>,
    /// All changes up to this revision are delivered.
    position: i64,
    /// Whether the position is repeated.
    has_progress: bool,
    /// Space on the connection.
    _permit: OwnedSemaphorePermit,
}

impl Changes {
    /// Opens the watch of the server.
    async fn stream(
        self,
    ) -> Result<futures::stream::BoxStream<'static, Result<pb::WatchBatch, GrpcStatus>>, GrpcStatus> {
        let after = Start::After(Revision(u64::try_from(self.position).unwrap_or_default()));
        let frames = self.source.watch(after).await.map_err(|error| refusal(&error))?;
        let open = OpenWatch { frames, changes: self };
        Ok(stream::unfold(Some(open), |open| async move {
            let mut open = open?;
            match open.next().await? {
                Ok(batch) => Some((Ok(batch), Some(open))),
                Err(error) => Some((Err(error), None)),
            }
        })
        .boxed())
    }
}

struct OpenWatch {
    frames: Frames<RawObject>,
    changes: Changes,
}

impl OpenWatch {
    async fn next(&mut self) -> Option<Result<pb::WatchBatch, GrpcStatus>> {
        let changes = &mut self.changes;
        // A late bookmark is no broken connection: that is known by its pings, and the watch repeats its position.
        let silent = async {
            match changes.has_progress {
                true => tokio::time::sleep_until(Instant::now() + KUBE_PROGRESS).await,
                false => std::future::pending().await,
            }
        };
        let frames = tokio::select! {
            biased;
            frames = self.frames.next() => frames?,
            () = silent => Ok(Vec::new()),
        };
        Some(frames.map_err(|error| refusal(&error)).map(|frames| {
            let newest = frames.iter().map(Frame::revision).max().map_or(0, wire);
            changes.position = changes.position.max(newest);
            let events = frames.into_iter().filter_map(event).collect();
            pb::WatchBatch { events, revision: changes.position, initial_done: false }
        }))
    }
}

/// The event of a frame; `None` for a bookmark.
fn event(frame: Frame<RawObject>) -> Option<pb::WatchEvent> {
    let (kind, revision, json) = match frame {
        Frame::Put(object) => (Type::Put, object.revision, object.json),
        Frame::Gone { revision, last: Some(last), .. } => (Type::Gone, revision, last.json),
        Frame::Gone { key, revision, last: None } => (Type::Gone, revision, bare(&key, revision)),
        // Each object with a name is decoded.
        Frame::Undecodable(_) | Frame::Progress { .. } => return None,
    };
    Some(pb::WatchEvent { r#type: kind.into(), selector: 0, json, revision: wire(revision) })
}

/// An object of which only name and revision are known.
fn bare(key: &Key, revision: Revision) -> bytes::Bytes {
    let metadata = json!({
        "namespace": key.namespace(), "name": key.name(), "resourceVersion": revision.to_string(),
    });
    json!({ "metadata": metadata }).to_string().into()
}

fn wire(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

/// The error of a call for the error of a source: a client of kstore's API makes the same error of it.
fn refusal(error: &SourceError) -> GrpcStatus {
    let text = error.to_string();
    let (status, wait) = match error {
        SourceError::Expired => (Status::expired(text), None),
        SourceError::Ahead { retry_after } => {
            (Status::foreign(504, "Timeout".to_owned(), text), *retry_after)
        }
        SourceError::Throttled { retry_after } => (Status::too_many_requests(text, 0), *retry_after),
        SourceError::Internal(_) | SourceError::Unsupported(_) => (Status::internal(text), None),
        SourceError::Fatal(_) => (Status::bad_request(text), None),
        SourceError::Unreachable(_) => return GrpcStatus::unavailable(text),
    };
    let wait = wait.and_then(|wait| u32::try_from(wait.as_secs()).ok()).filter(|wait| *wait > 0);
    to_grpc(&match wait {
        Some(wait) => status.retry_after(wait),
        None => status,
    })
}

/// The source of the changes that a selector matches.
fn source(
    reference: &pb::Ref,
    selector: &pb::WatchSelector,
    transport: Transport,
    caller: &Caller,
) -> Result<KubeSource<RawObject>, GrpcStatus> {
    // The request of the list checks the names and joins the selectors.
    let selection = Selection { fields: selector.field_selector.clone(), ..Selection::default() };
    requests::list(reference, &selection)?;
    let fields = requests::fields(reference, &selector.field_selector);
    let resource = (&*reference.group, &*reference.version, &*reference.resource);
    let transport = WatchTransport { transport, caller: caller.clone() };
    let source = KubeSource::over(transport, resource, |raw: &Raw<'_>| RawObject::read(raw.json()));
    Ok(source
        .namespace(&reference.namespace)
        .labels(&selector.label_selector)
        .fields(&fields)
        .without_streaming())
}

/// A connection as the transport of a source, for one caller.
struct WatchTransport {
    transport: Transport,
    caller: Caller,
}

impl kstore_informer::kube::Transport for WatchTransport {
    fn send(
        &self,
        request: http::Request<()>,
    ) -> BoxFuture<'static, Result<http::Response<ResponseBody>, SourceError>> {
        let mut request = request.map(|()| tonic::body::Body::empty());
        self.caller.add_to(request.headers_mut());
        let sent = self.transport.clone().oneshot(request);
        async move {
            let response = sent.await.map_err(|error| SourceError::Unreachable(error.to_string()))?;
            Ok(response.map(|body| body.map_err(std::io::Error::other).boxed_unsync()))
        }
        .boxed()
    }
}

/// The JSON of an object with the metadata that a watch needs.
struct RawObject {
    key: Key,
    revision: Revision,
    json: bytes::Bytes,
}

#[derive(Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Name {
    #[serde(default)]
    namespace: Option<String>,
    name: String,
    #[serde(default)]
    resource_version: Option<String>,
}

impl RawObject {
    fn read(json: &[u8]) -> Result<Self, serde_json::Error> {
        let Named { metadata } = serde_json::from_slice(json)?;
        let revision = metadata.resource_version.and_then(|version| version.parse().ok());
        Ok(Self {
            key: Key::new(&metadata.namespace.unwrap_or_default(), &metadata.name),
            revision: Revision(revision.unwrap_or(0)),
            json: bytes::Bytes::copy_from_slice(json),
        })
    }
}

impl Object for RawObject {
    fn key(&self) -> Key {
        self.key.clone()
    }

    // Not read: a source compares no objects.
    fn uid(&self) -> &'static str {
        ""
    }

    fn revision(&self) -> Revision {
        self.revision
    }
}
