//! [`KubeSource`]: the objects of one Kubernetes API resource as a source for an informer.

use super::decode::{Decode, Decoder};
use super::refusal::{Status, retry_after};
use super::request::{ApiRequest, ResourcePath};
use super::stream::Watch;
use super::versions::Versions;
use super::{Raw, ResponseBody, Transport};
use crate::limits::{KUBE_ANSWER, KUBE_LIST, KUBE_REFUSAL, KUBE_WATCH, KUBE_WATCH_GRACE};
use crate::{
    Capabilities, Capability, Domain, Frames, ListRequest, ListerWatcher, Object, Page, ReadAt, Revision,
    Revisions, SourceError, Start,
};
use http::{Request, Response, header};
use http_body_util::{BodyExt, Limited};
use std::fmt::Display;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// List and watch of one Kubernetes API resource; all namespaces by default.
///
/// - It requests a streaming list where the server supports it. If the server refuses or ignores the request,
///   the informer lists instead, and the source remembers.
/// - Revisions are the server's `resourceVersion`s. They are comparable with no other source
///   ([`Revisions::Own`]) unless [`KubeSource::domain`] says so. After a non-numeric version the source
///   assigns its own numbers. Declare a server with such versions as [`KubeSource::opaque`], so that callers
///   do not wait for its revisions.
/// - Several objects may share a revision if a server commits them together, and network chunks may split
///   such a revision. The source delivers each chunk at once. A broken watch resumes after the last revision
///   known to be complete ([`Capabilities::splits_revisions`]).
/// - An object that starts to match the selectors is put; an object that stops to match is gone.
/// - Objects that cannot be decoded are reported by name and do not affect others.
///
/// Clones share their knowledge of the server.
pub struct KubeSource<T> {
    transport: Arc<dyn Transport>,
    resource: ResourcePath,
    /// Whether to request only `metadata` of each object.
    metadata_only: bool,
    decoder: Decoder<T>,
    revisions: Revisions,
    progress_every: Option<Duration>,
    streaming: Arc<AtomicBool>,
}

impl<T> Clone for KubeSource<T> {
    fn clone(&self) -> Self {
        Self {
            transport: self.transport.clone(),
            resource: self.resource.clone(),
            metadata_only: self.metadata_only,
            decoder: self.decoder.clone(),
            revisions: self.revisions.clone(),
            progress_every: self.progress_every,
            streaming: self.streaming.clone(),
        }
    }
}

impl<T: Object> KubeSource<T> {
    /// A source of the resource of this group (empty for the core group), version and lower-case plural.
    /// `decode` gets the JSON of each object.
    pub fn over<E: Display>(
        transport: impl Transport,
        (group, version, plural): (&str, &str, &str),
        decode: impl Fn(&Raw<'_>) -> Result<T, E> + Send + Sync + 'static,
    ) -> Self {
        let resource = ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            ..ResourcePath::default()
        };
        let decode = move |raw: &Raw<'_>| decode(raw).map_err(|error| error.to_string());
        Self::at(Arc::new(transport), resource, false, Arc::new(decode))
    }

    pub(super) fn at(
        transport: Arc<dyn Transport>,
        resource: ResourcePath,
        metadata_only: bool,
        decode: Decode<T>,
    ) -> Self {
        Self {
            transport,
            resource,
            metadata_only,
            decoder: Decoder { decode, versions: Arc::default() },
            revisions: Revisions::Own,
            progress_every: None,
            streaming: Arc::new(AtomicBool::new(true)),
        }
    }

    /// Selects one namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.resource.namespace);
        self
    }

    /// Selects by labels, for example `app=web,tier!=db`.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        selector.clone_into(&mut self.resource.labels);
        self
    }

    /// Selects by fields, for example `spec.nodeName=node-1`.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        selector.clone_into(&mut self.resource.fields);
        self
    }

    /// Declares that all sources with the same domain share one history of revisions. True of kstore and of
    /// clusters whose resources are all in one etcd; Kubernetes itself does not guarantee it.
    #[must_use]
    pub fn domain(mut self, domain: Domain) -> Self {
        self.revisions = Revisions::Shared(domain);
        self
    }

    /// Declares that this server's `resourceVersion`s are not numbers.
    #[must_use]
    pub fn opaque(mut self) -> Self {
        self.decoder.versions = Arc::new(Versions::opaque());
        self
    }

    /// Disables streaming lists: the informer lists first.
    #[must_use]
    pub fn without_streaming(mut self) -> Self {
        self.streaming = Arc::new(AtomicBool::new(false));
        self
    }

    /// Sets the server's bookmark interval; the informer reconnects after a few silent intervals. By default
    /// a silent connection is noticed only when the watch should have ended, after some minutes. (Kubernetes
    /// sends one bookmark a minute but does not guarantee it.)
    #[must_use]
    pub fn progress_every(mut self, interval: Duration) -> Self {
        self.progress_every = Some(interval);
        self
    }

    /// Decodes each object into another type with `decode`. Fields that the type does not name are skipped
    /// and never stored.
    pub fn project<U: Object, E: Display>(
        self,
        decode: impl Fn(&Raw<'_>) -> Result<U, E> + Send + Sync + 'static,
    ) -> KubeSource<U> {
        let decode = move |raw: &Raw<'_>| decode(raw).map_err(|error| error.to_string());
        KubeSource {
            transport: self.transport,
            resource: self.resource,
            metadata_only: self.metadata_only,
            decoder: Decoder { decode: Arc::new(decode), versions: self.decoder.versions },
            revisions: self.revisions,
            progress_every: self.progress_every,
            streaming: self.streaming,
        }
    }

    fn request(&self, ask: ApiRequest<'_>) -> Result<Request<()>, SourceError> {
        let accept = match (self.metadata_only, ask) {
            (false, _) => "application/json",
            (true, ApiRequest::List { .. } | ApiRequest::Page { .. }) => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
            (true, ApiRequest::Initial { .. } | ApiRequest::After { .. }) => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
            }
        };
        Request::get(self.resource.url(ask))
            .header(header::ACCEPT, accept)
            // A watch is read line by line; compression would delay lines.
            .header(header::ACCEPT_ENCODING, "identity")
            .body(())
            .map_err(|error| SourceError::Fatal(format!("invalid request URI: {error}")))
    }

    /// Sends a request and converts an unsuccessful response into an error with its status.
    async fn send(&self, ask: ApiRequest<'_>) -> Result<Response<ResponseBody>, RequestError> {
        let request = self.request(ask).map_err(RequestError::Unsent)?;
        let sent = timeout(KUBE_ANSWER, self.transport.send(request)).await;
        let late = || RequestError::Unsent(SourceError::Unreachable("request timed out".into()));
        let response = sent.map_err(|_| late())?.map_err(RequestError::Unsent)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (code, wait) = (response.status().as_u16(), retry_after(response.headers()));
        let body = timeout(KUBE_ANSWER, Limited::new(response.into_body(), KUBE_REFUSAL).collect()).await;
        let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
        Err(RequestError::Answered(Status::of_body(code, &body), wait))
    }

    fn version(&self, revision: Revision) -> Result<String, SourceError> {
        self.decoder.versions.version(revision).ok_or(SourceError::Expired)
    }

    /// The `resourceVersion` parameter for `at`, `None` for the newest state.
    fn read_version(&self, at: ReadAt) -> Result<Option<String>, SourceError> {
        match at {
            ReadAt::Any => Ok(Some("0".into())),
            ReadAt::Latest => Ok(None),
            ReadAt::NotOlderThan(revision) | ReadAt::Exact(revision) => self.version(revision).map(Some),
        }
    }
}

/// Why a request failed.
enum RequestError {
    /// The server refused it.
    Answered(Status, Option<Duration>),
    /// The request did not reach the server.
    Unsent(SourceError),
}

impl From<RequestError> for SourceError {
    fn from(refused: RequestError) -> Self {
        match refused {
            RequestError::Answered(status, wait) => status.meaning(wait),
            RequestError::Unsent(error) => error,
        }
    }
}

impl<T: Object> ListerWatcher for KubeSource<T> {
    type Obj = T;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            streaming_list: self.streaming.load(Ordering::Acquire),
            paging: true,
            exact_list: true,
            progress_every: self.progress_every,
            splits_revisions: true,
            revisions: match self.decoder.versions.is_opaque() {
                true => Revisions::Opaque,
                false => self.revisions.clone(),
            },
        }
    }

    async fn list(&self, request: ListRequest) -> Result<Page<T>, SourceError> {
        let limit = request.limit.map(NonZeroU32::get);
        let version = self.read_version(request.at)?;
        let ask = match &request.next {
            Some(next) => ApiRequest::Page { token: next.as_str(), limit },
            None => {
                let exact = matches!(request.at, ReadAt::Exact(_));
                ApiRequest::List { version: version.as_deref(), exact, limit }
            }
        };
        let response = self.send(ask).await?;
        let body = timeout(KUBE_ANSWER, Limited::new(response.into_body(), KUBE_LIST).collect()).await;
        let body = body.map_err(|_| SourceError::Unreachable("the list response timed out".into()))?;
        let body = body.map_err(|error| SourceError::Unreachable(error.to_string()))?.to_bytes();
        let page = self.decoder.page(&body)?;
        match request.at {
            ReadAt::NotOlderThan(least) if page.revision < least => {
                Err(SourceError::Ahead { retry_after: None })
            }
            _ => Ok(page),
        }
    }

    async fn watch(&self, start: Start) -> Result<Frames<T>, SourceError> {
        let seconds = KUBE_WATCH.as_secs();
        if matches!(start, Start::Initial(_)) && !self.streaming.load(Ordering::Acquire) {
            return Err(SourceError::Unsupported(Capability::StreamingList));
        }
        let (version, initial) = match start {
            Start::Initial(ReadAt::Exact(_)) => return Err(SourceError::Unsupported(Capability::ExactList)),
            Start::Initial(at @ ReadAt::NotOlderThan(least)) => (self.read_version(at)?, Some(least)),
            Start::Initial(at) => (self.read_version(at)?, Some(Revision(0))),
            Start::After(revision) => (Some(self.version(revision)?), None),
        };
        let ask = match (initial, &version) {
            (None, Some(version)) => ApiRequest::After { version, seconds },
            (_, version) => ApiRequest::Initial { version: version.as_deref(), seconds },
        };
        let response = match self.send(ask).await {
            Ok(response) => response,
            Err(RequestError::Answered(status, _)) if initial.is_some() && status.refuses_streaming() => {
                self.streaming.store(false, Ordering::Release);
                return Err(SourceError::Unsupported(Capability::StreamingList));
            }
            Err(refused) => return Err(refused.into()),
        };
        let deadline = Instant::now() + KUBE_WATCH + KUBE_WATCH_GRACE;
        let (decoder, streaming) = (self.decoder.clone(), self.streaming.clone());
        Ok(Watch::new(response.into_body(), decoder, initial, streaming, deadline).frames())
    }
}
