//! Decoding of watch lines and list bodies into frames and pages. Pure. Each object is decoded from its own
//! bytes directly into the cached type; fields that the type does not name are skipped and never stored.

use super::refusal::Status;
use super::versions::Versions;
use crate::{Continue, Frame, Key, Object, Page, Revision, SourceError, Undecodable};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;

/// The JSON of one object, passed to a decode function.
pub struct Raw<'a> {
    json: &'a [u8],
    /// Revision of the list that contains the object, `None` in a watch.
    list: Option<Revision>,
    versions: &'a Versions,
}

impl<'a> Raw<'a> {
    /// The object as JSON.
    pub fn json(&self) -> &'a [u8] {
        self.json
    }

    /// The revision of a `resourceVersion`: its number, or a number that the source assigned to an opaque
    /// version.
    pub fn revision_of(&self, version: &str) -> Revision {
        match self.list {
            Some(list) => self.versions.listed(version, list),
            None => self.versions.position(version),
        }
    }
}

/// Function that decodes an object from its JSON.
pub(super) type Decode<T> = Arc<dyn Fn(&Raw<'_>) -> Result<T, String> + Send + Sync>;

/// Decodes watch lines into frames and list bodies into pages.
pub(super) struct Decoder<T> {
    pub decode: Decode<T>,
    pub versions: Arc<Versions>,
}

impl<T> Clone for Decoder<T> {
    fn clone(&self) -> Self {
        Self { decode: self.decode.clone(), versions: self.versions.clone() }
    }
}

/// A decoded line of a watch.
pub(super) enum WatchLine<T> {
    Frame(Frame<T>),
    /// The watch ends with this status.
    RequestError(Status),
    /// Nothing usable: an unknown event type or an object without a name.
    Nothing,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(default, borrow)]
    metadata: ListMeta<'a>,
    #[serde(default, borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta<'a> {
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(borrow)]
    r#continue: Option<Cow<'a, str>>,
}

/// The metadata of an object that cannot be decoded otherwise.
#[derive(Deserialize)]
struct TypeHead<'a> {
    #[serde(borrow)]
    metadata: HeadMeta<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HeadMeta<'a> {
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Bookmark<'a> {
    #[serde(borrow)]
    metadata: BookmarkMeta<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BookmarkMeta<'a> {
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    annotations: Option<Annotations>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "k8s.io/initial-events-end")]
    initial_events_end: String,
}

impl<T: Object> Decoder<T> {
    /// Decodes a line of a watch.
    ///
    /// # Errors
    /// When it is not an event: the stream is corrupt then.
    pub(super) fn line(&self, line: &[u8]) -> Result<WatchLine<T>, SourceError> {
        let event: Event<'_> = serde_json::from_slice(line).map_err(|error| garbled(&error))?;
        let json = event.object.get().as_bytes();
        Ok(match event.kind.as_ref() {
            "ADDED" | "MODIFIED" => self.put(json).map_or(WatchLine::Nothing, WatchLine::Frame),
            "DELETED" => self.deleted_frame(json).map_or(WatchLine::Nothing, WatchLine::Frame),
            "BOOKMARK" => WatchLine::Frame(self.bookmark(json)?),
            "ERROR" => WatchLine::RequestError(Status::of_body(0, json)),
            kind => {
                tracing::warn!(kind, "ignoring a watch event of unknown type");
                WatchLine::Nothing
            }
        })
    }

    fn put(&self, json: &[u8]) -> Option<Frame<T>> {
        match self.object(json, None) {
            Ok(object) => Some(Frame::Put(object)),
            Err(error) => self.undecodable(json, None, error).map(Frame::Undecodable),
        }
    }

    fn deleted_frame(&self, json: &[u8]) -> Option<Frame<T>> {
        match self.object(json, None) {
            Ok(last) => Some(Frame::Gone { key: last.key(), revision: last.revision(), last: Some(last) }),
            Err(error) => {
                let Undecodable { key, revision, .. } = self.undecodable(json, None, error)?;
                Some(Frame::Gone { key, revision, last: None })
            }
        }
    }

    fn bookmark(&self, json: &[u8]) -> Result<Frame<T>, SourceError> {
        let Bookmark { metadata } = serde_json::from_slice(json).map_err(|error| garbled(&error))?;
        let annotations = metadata.annotations.unwrap_or_default();
        let initial_done = annotations.initial_events_end == "true";
        Ok(Frame::Progress { revision: self.versions.position(&metadata.resource_version), initial_done })
    }

    /// Decodes the body of a list.
    ///
    /// # Errors
    /// When it is not a list.
    pub(super) fn page(&self, body: &[u8]) -> Result<Page<T>, SourceError> {
        let List { metadata, items } = serde_json::from_slice(body).map_err(|error| garbled(&error))?;
        let revision = self.versions.position(&metadata.resource_version);
        let items = items.unwrap_or_default();
        let next = metadata.r#continue.filter(|token| !token.is_empty()).map(|token| Continue::new(&*token));
        let mut page =
            Page { items: Vec::with_capacity(items.len()), undecodable: Vec::new(), revision, next };
        for item in items {
            let json = item.get().as_bytes();
            match self.object(json, Some(revision)) {
                Ok(object) => page.items.push(object),
                Err(error) => page.undecodable.extend(self.undecodable(json, Some(revision), error)),
            }
        }
        Ok(page)
    }

    fn object(&self, json: &[u8], list: Option<Revision>) -> Result<T, String> {
        let object = (self.decode)(&Raw { json, list, versions: &self.versions })?;
        match object.key().as_str() {
            "" => Err("metadata.name is empty".into()),
            _ => Ok(object),
        }
    }

    fn undecodable(&self, json: &[u8], list: Option<Revision>, error: String) -> Option<Undecodable> {
        let head = serde_json::from_slice(json).map(|TypeHead { metadata }| metadata);
        let Some(head) = head.ok().filter(|head| !head.name.is_empty()) else {
            tracing::error!(error, "cannot decode an object or its name; ignoring it");
            return None;
        };
        let raw = Raw { json, list, versions: &self.versions };
        let revision = raw.revision_of(&head.resource_version);
        Some(Undecodable { key: Key::new(&head.namespace, &head.name), revision, error })
    }
}

fn garbled(error: &serde_json::Error) -> SourceError {
    SourceError::Internal(format!("cannot decode the response: {error}"))
}
