//! [`Source`]: the [`ListerWatcher`] over kstore's own door. The initial state and all changes come on one stream.

use std::sync::Arc;

use futures::StreamExt;
use kstore_informer::{
    Capabilities, Frame, Frames, Key, ListerWatcher, Listing, Object, Revision, SourceError, Start,
    Undecodable,
};
use kstore_proto::kstore::v1 as pb;
use pb::watch_event::Type;
use serde::Deserialize;

use crate::{
    ApiError, Gvr, ListParams, WatchParams,
    calls::{Calls, revision, wire},
    limits::WATCH_PROGRESS,
};

type Decode<T> = Arc<dyn Fn(&[u8]) -> Result<T, ApiError> + Send + Sync>;

/// Objects of one resource, or of several, for an informer.
pub struct Source<T> {
    calls: Calls,
    more: Vec<Gvr>,
    params: WatchParams,
    decode: Decode<T>,
}

impl<T> Clone for Source<T> {
    fn clone(&self) -> Self {
        Self {
            calls: self.calls.clone(),
            more: self.more.clone(),
            params: self.params.clone(),
            decode: self.decode.clone(),
        }
    }
}

impl<T: Object> Source<T> {
    pub(crate) fn new(
        calls: Calls,
        params: WatchParams,
        decode: impl Fn(&[u8]) -> Result<T, ApiError> + Send + Sync + 'static,
    ) -> Self {
        Self { calls, more: Vec::new(), params, decode: Arc::new(decode) }
    }

    /// The objects of these resources too, all on one stream in revision order; at most [`MAX_SELECTORS`] resources in all.
    /// Objects say themselves of which kind they are. Their keys must differ between kinds: an informer holds one object per
    /// key.
    ///
    /// [`MAX_SELECTORS`]: crate::limits::MAX_SELECTORS
    #[must_use]
    pub fn and(mut self, resources: impl IntoIterator<Item = Gvr>) -> Self {
        self.more.extend(resources);
        self
    }

    fn resources(&self) -> impl Iterator<Item = &Gvr> {
        std::iter::once(&self.calls.gvr).chain(&self.more)
    }

    /// What a watch of it selects, one for each of its resources.
    pub(crate) fn selectors(&self) -> Vec<pb::WatchSelector> {
        let selector = |gvr: &Gvr| pb::WatchSelector {
            r#ref: Some(gvr.reference(&self.params.ns, &self.params.name, "")),
            label_selector: self.params.labels.clone(),
            field_selector: self.params.fields.clone(),
        };
        self.resources().map(selector).collect()
    }

    fn request(&self, start: Start) -> pb::WatchRequest {
        let after_revision = match start {
            Start::Initial => 0,
            Start::After(revision) => wire(revision),
        };
        pb::WatchRequest { selectors: self.selectors(), after_revision, progress: true }
    }

    /// A batch as the informer wants it: its events, then how far it has come.
    pub(crate) fn frames(&self, batch: pb::WatchBatch) -> Vec<Frame<T>> {
        frames(batch, &self.decode)
    }
}

impl<T: Object> ListerWatcher for Source<T> {
    type Obj = T;

    fn capabilities(&self) -> Capabilities {
        Capabilities { streaming_list: true, progress_every: Some(WATCH_PROGRESS) }
    }

    async fn list(&self, _floor: Revision) -> Result<Listing<T>, SourceError> {
        let fields = match (self.params.name.as_str(), self.params.fields.as_str()) {
            ("", fields) => fields.to_owned(),
            (name, "") => format!("metadata.name={name}"),
            (name, fields) => format!("metadata.name={name},{fields}"),
        };
        let mut params = ListParams { labels: self.params.labels.clone(), fields, at: None };
        let mut listing = Listing { items: Vec::new(), undecodable: Vec::new(), revision: Revision(0) };
        for gvr in self.resources() {
            let calls = Calls { client: self.calls.client.clone(), gvr: gvr.clone() };
            let (jsons, revision) = calls.list(&self.params.ns, &params).await?;
            // The others at the revision of the first: together they are one state.
            params.at.get_or_insert(revision);
            listing.revision = revision;
            for json in jsons {
                match (self.decode)(&json) {
                    Ok(object) => listing.items.push(object),
                    Err(error) => listing.undecodable.extend(undecodable(&json, revision, &error)),
                }
            }
        }
        Ok(listing)
    }

    async fn watch(&self, start: Start) -> Result<Frames<T>, SourceError> {
        let stream = self.calls.client.open_watch(self.request(start)).await?;
        let decode = self.decode.clone();
        let frames = stream.map(move |batch| match batch {
            Ok(batch) => Ok(frames(batch, &decode)),
            Err(status) => Err(ApiError::from(status).into()),
        });
        Ok(frames.boxed())
    }
}

/// A batch as the informer wants it: its events, then how far it has come.
fn frames<T: Object>(batch: pb::WatchBatch, decode: &Decode<T>) -> Vec<Frame<T>> {
    let _span =
        tracing::debug_span!("grpc", revision = batch.revision, events = batch.events.len()).entered();
    let mut frames = Vec::with_capacity(batch.events.len() + 1);
    frames.extend(batch.events.into_iter().filter_map(|event| frame(&event, decode)));
    frames.push(Frame::Progress { revision: revision(batch.revision), initial_done: batch.initial_done });
    frames
}

/// One event, or none if not even the name of its object can be read.
fn frame<T: Object>(event: &pb::WatchEvent, decode: &Decode<T>) -> Option<Frame<T>> {
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
        tracing::error!(%revision, %error, "object without a readable name");
        return None;
    };
    Some(Undecodable { key, revision, error: error.to_string() })
}

/// Namespace and name alone.
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
