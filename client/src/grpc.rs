//! [`Source`]: the [`ListerWatcher`] over kstore's gRPC API. The initial state and all changes come on one
//! stream.

use crate::calls::{Calls, revision, wire};
use crate::{ApiError, Gvr, ListParams, WatchParams};
use futures::StreamExt;
use kstore_informer::{
    Capabilities, Capability, Continue, Domain, DynListerWatcher, Frame, Frames, Key, ListRequest,
    ListerWatcher, Object, Page, ReadAt, Revision, Revisions, SharedObject, SourceError, Start, Undecodable,
    typed_frames,
};
use kstore_proto::ProgressDemand;
use kstore_proto::kstore::v1 as pb;
use pb::watch_event::Type;
use serde::Deserialize;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::sync::Arc;

type Decode = Arc<dyn Fn(&[u8]) -> Result<SharedObject, ApiError> + Send + Sync>;

/// The objects of one or several resources for an informer.
pub struct Source<T> {
    pub(crate) any: AnySource,
    object: PhantomData<fn() -> T>,
}

impl<T> Clone for Source<T> {
    fn clone(&self) -> Self {
        Self { any: self.any.clone(), object: PhantomData }
    }
}

impl<T: Object> Source<T> {
    pub(crate) fn new(
        calls: Calls,
        params: WatchParams,
        decode: impl Fn(&[u8]) -> Result<T, ApiError> + Send + Sync + 'static,
    ) -> Self {
        let decode: Decode = Arc::new(move |json| Ok(Arc::new(decode(json)?)));
        let any = AnySource { calls, more: Vec::new(), params, decode, demand: ProgressDemand::default() };
        Self { any, object: PhantomData }
    }

    /// Adds the objects of these resources, all on one stream in revision order. The server bounds the number of
    /// resources and refuses more. The objects must know their kind, and the keys of different kinds must differ:
    /// an informer holds one object per key.
    #[must_use]
    pub fn and(mut self, resources: impl IntoIterator<Item = Gvr>) -> Self {
        self.any.more.extend(resources);
        self
    }
}

impl<T: Object> ListerWatcher for Source<T> {
    type Obj = T;

    fn capabilities(&self) -> Capabilities {
        self.any.capabilities()
    }

    async fn list(&self, request: ListRequest) -> Result<Page<T>, SourceError> {
        self.any.list(request).await.map(Page::typed)
    }

    async fn watch(&self, start: Start) -> Result<Frames<T>, SourceError> {
        self.any.watch(start).await.map(typed_frames)
    }

    fn demand(&self, revision: Revision) {
        self.any.demand(revision);
    }

    fn erased(self) -> DynListerWatcher<SharedObject> {
        DynListerWatcher::new(self.any)
    }
}

/// A [`Source`] without the type of its objects: its code exists once for all of them.
#[derive(Clone)]
pub(crate) struct AnySource {
    calls: Calls,
    more: Vec<Gvr>,
    params: WatchParams,
    decode: Decode,
    demand: ProgressDemand,
}

impl AnySource {
    fn resources(&self) -> impl Iterator<Item = &Gvr> {
        std::iter::once(&self.calls.gvr).chain(&self.more)
    }

    /// The watch selectors, one for each resource.
    pub(crate) fn selectors(&self) -> Vec<pb::WatchSelector> {
        let selector = |gvr: &Gvr| pb::WatchSelector {
            r#ref: Some(gvr.reference(&self.params.ns, &self.params.name, "")),
            label_selector: self.params.labels.clone(),
            field_selector: self.params.fields.clone(),
            include_uninitialized: self.params.uninitialized,
        };
        self.resources().map(selector).collect()
    }

    fn request(&self, start: Start) -> pb::WatchRequest {
        let after_revision = match start {
            Start::Initial(_) => 0,
            Start::After(revision) => wire(revision),
        };
        pb::WatchRequest { selectors: self.selectors(), after_revision, progress: true }
    }

    /// The frames of a batch: its events, then its revision. Refuses a complete initial state that is older
    /// than `least`.
    ///
    /// # Errors
    ///
    /// [`SourceError::Ahead`].
    pub(crate) fn frames(
        &self,
        batch: pb::WatchBatch,
        least: Revision,
    ) -> Result<Vec<Frame<SharedObject>>, SourceError> {
        match batch.initial_done && revision(batch.revision) < least {
            true => Err(SourceError::Ahead { retry_after: None }),
            false => Ok(frames(batch, &self.decode)),
        }
    }

    fn list_params(&self, at: Option<Revision>) -> ListParams {
        let fields = match (self.params.name.as_str(), self.params.fields.as_str()) {
            ("", fields) => fields.to_owned(),
            (name, "") => format!("metadata.name={name}"),
            (name, fields) => format!("metadata.name={name},{fields}"),
        };
        let uninitialized = self.params.uninitialized;
        ListParams { labels: self.params.labels.clone(), fields, at, uninitialized }
    }

    fn take(&self, json: &[u8], page: &mut Page<SharedObject>) {
        match (self.decode)(json) {
            Ok(object) => page.items.push(object),
            Err(error) => page.undecodable.extend(undecodable(json, page.revision, &error)),
        }
    }
}

impl ListerWatcher for AnySource {
    type Obj = SharedObject;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            streaming_list: true,
            paging: true,
            exact_list: true,
            progress_every: Some(self.calls.client.progress_every()),
            splits_revisions: false,
            revisions: Revisions::Shared(Domain::new("kstore")),
        }
    }

    async fn list(&self, request: ListRequest) -> Result<Page<SharedObject>, SourceError> {
        let limit = request.limit.map_or(0, NonZeroU32::get);
        let mut position = match &request.next {
            Some(next) => ListPosition::from_token(next)?,
            None => ListPosition::first(request.at),
        };
        let mut page = Page { items: Vec::new(), undecodable: Vec::new(), revision: Revision(0), next: None };
        for gvr in self.resources().skip(position.resource) {
            let calls = Calls { client: self.calls.client.clone(), gvr: gvr.clone() };
            let params = self.list_params(position.at);
            let read = calls.page(&self.params.ns, &params, limit, &position.next).await?;
            // Lists the other resources at the revision of the first, so that all pages show one state.
            position.at.get_or_insert(read.revision);
            page.revision = read.revision;
            read.items.iter().for_each(|json| self.take(json, &mut page));
            position.advance(read.next);
            if limit > 0 && position.resource < self.resources().count() {
                page.next = Some(position.to_token());
                break;
            }
        }
        match request.at {
            ReadAt::NotOlderThan(least) if page.revision < least => {
                Err(SourceError::Ahead { retry_after: None })
            }
            _ => Ok(page),
        }
    }

    async fn watch(&self, start: Start) -> Result<Frames<SharedObject>, SourceError> {
        let least = least(start)?;
        let stream = self.calls.client.open_watch(self.request(start), &self.demand).await?;
        let source = self.clone();
        let frames = stream.map(move |batch| source.frames(batch.map_err(ApiError::from)?, least));
        Ok(frames.boxed())
    }

    fn demand(&self, revision: Revision) {
        self.demand.demand(wire(revision));
    }
}

/// The minimum revision of an initial state.
pub(crate) fn least(start: Start) -> Result<Revision, SourceError> {
    match start {
        Start::Initial(ReadAt::Exact(_)) => Err(SourceError::Unsupported(Capability::ExactList)),
        Start::Initial(ReadAt::NotOlderThan(least)) => Ok(least),
        Start::Initial(ReadAt::Any | ReadAt::Latest) | Start::After(_) => Ok(Revision(0)),
    }
}

/// The position of a list over several resources. Between pages it is the text of the continue token.
struct ListPosition {
    /// The index of the next resource.
    resource: usize,
    /// The server's continue token within the resource.
    next: String,
    /// The revision of the list, once known.
    at: Option<Revision>,
}

impl ListPosition {
    fn first(at: ReadAt) -> Self {
        let at = match at {
            ReadAt::Exact(revision) => Some(revision),
            // The server returns the newest state for each of these.
            ReadAt::Any | ReadAt::Latest | ReadAt::NotOlderThan(_) => None,
        };
        Self { resource: 0, next: String::new(), at }
    }

    fn advance(&mut self, next: String) {
        self.resource += usize::from(next.is_empty());
        self.next = next;
    }

    fn to_token(&self) -> Continue {
        let at = self.at.unwrap_or_default();
        Continue::new(format!("{} {at} {}", self.resource, self.next))
    }

    fn from_token(text: &Continue) -> Result<Self, SourceError> {
        let position = || {
            let mut parts = text.as_str().splitn(3, ' ');
            let (resource, at) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            Some(Self { resource, at: Some(Revision(at)), next: parts.next()?.to_owned() })
        };
        position().ok_or_else(|| SourceError::Fatal("the continue token belongs to another source".into()))
    }
}

/// The frames of a batch: its events, then its revision.
fn frames(batch: pb::WatchBatch, decode: &Decode) -> Vec<Frame<SharedObject>> {
    let _span =
        tracing::debug_span!("grpc", revision = batch.revision, events = batch.events.len()).entered();
    let mut frames = Vec::with_capacity(batch.events.len() + 1);
    frames.extend(batch.events.into_iter().filter_map(|event| frame(&event, decode)));
    frames.push(Frame::Progress { revision: revision(batch.revision), initial_done: batch.initial_done });
    frames
}

/// The frame of an event; `None` if even the name of its object cannot be decoded.
fn frame(event: &pb::WatchEvent, decode: &Decode) -> Option<Frame<SharedObject>> {
    let at = revision(event.revision);
    match (event.r#type(), decode(&event.json)) {
        (Type::Put, Ok(object)) => Some(Frame::Put(object)),
        (Type::Put, Err(error)) => undecodable(&event.json, at, &error).map(Frame::Undecodable),
        (Type::Gone, Ok(last)) => Some(Frame::Gone { key: last.key(), revision: at, last: Some(last) }),
        (Type::Gone, Err(_)) => Some(Frame::Gone { key: name(&event.json)?, revision: at, last: None }),
    }
}

fn undecodable(json: &[u8], revision: Revision, error: &ApiError) -> Option<Undecodable> {
    let Some(key) = name(json) else {
        tracing::error!(%revision, %error, "cannot decode the name of an object");
        return None;
    };
    Some(Undecodable { key, revision, error: error.to_string() })
}

/// Decodes only namespace and name.
fn name(json: &[u8]) -> Option<Key> {
    #[derive(Deserialize)]
    struct Named {
        metadata: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        #[serde(default)]
        namespace: String,
        name: String,
    }
    let Named { metadata } = serde_json::from_slice(json).ok()?;
    Some(Key::new(&metadata.namespace, &metadata.name))
}
