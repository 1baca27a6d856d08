//! From bytes to frames and pages. Pure: a line or a body in, what it says out. Objects are decoded from their own bytes straight
//! into the type that the informer holds, so that what the type does not name is skipped and never stored.

use std::{borrow::Cow, sync::Arc};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{refusal::Status, versions::Versions};
use crate::{Continue, Frame, Key, Object, Page, Revision, SourceError, Undecodable};

/// The bytes of one object, for a function that makes something of them.
pub struct Raw<'a> {
    json: &'a [u8],
    /// The list that it is in, if it is in one.
    list: Option<Revision>,
    versions: &'a Versions,
}

impl<'a> Raw<'a> {
    /// The object as JSON.
    pub fn json(&self) -> &'a [u8] {
        self.json
    }

    /// The revision that a `resourceVersion` of the object stands for: the number that it is, or on a server whose versions are
    /// no numbers, one that the source has given it.
    pub fn revision_of(&self, version: &str) -> Revision {
        match self.list {
            Some(list) => self.versions.listed(version, list),
            None => self.versions.position(version),
        }
    }
}

/// How an object is made of its bytes.
pub(super) type Decode<T> = Arc<dyn Fn(&Raw<'_>) -> Result<T, String> + Send + Sync>;

/// Makes frames and pages.
pub(super) struct Decoder<T> {
    pub decode: Decode<T>,
    pub versions: Arc<Versions>,
}

impl<T> Clone for Decoder<T> {
    fn clone(&self) -> Self {
        Self { decode: self.decode.clone(), versions: self.versions.clone() }
    }
}

/// What a line of a watch says.
pub(super) enum Line<T> {
    Frame(Frame<T>),
    /// The watch ends with this.
    Refused(Status),
    /// Nothing that anybody could use.
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

/// The name of an object, where the rest of it cannot be read.
#[derive(Deserialize)]
struct Head<'a> {
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
    /// What a line says.
    ///
    /// # Errors
    /// When it is no event at all: then the stream cannot be trusted any further.
    pub(super) fn line(&self, line: &[u8]) -> Result<Line<T>, SourceError> {
        let event: Event<'_> = serde_json::from_slice(line).map_err(|error| garbled(&error))?;
        let json = event.object.get().as_bytes();
        Ok(match event.kind.as_ref() {
            "ADDED" | "MODIFIED" => self.put(json).map_or(Line::Nothing, Line::Frame),
            "DELETED" => self.gone(json).map_or(Line::Nothing, Line::Frame),
            "BOOKMARK" => Line::Frame(self.bookmark(json)?),
            "ERROR" => Line::Refused(Status::of_body(0, json)),
            kind => {
                tracing::warn!(kind, "an event of an unknown type");
                Line::Nothing
            }
        })
    }

    fn put(&self, json: &[u8]) -> Option<Frame<T>> {
        match self.object(json, None) {
            Ok(object) => Some(Frame::Put(object)),
            Err(error) => self.undecodable(json, None, error).map(Frame::Undecodable),
        }
    }

    fn gone(&self, json: &[u8]) -> Option<Frame<T>> {
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

    /// The page that a body holds.
    ///
    /// # Errors
    /// When it is no list.
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
            "" => Err("it has no name".into()),
            _ => Ok(object),
        }
    }

    fn undecodable(&self, json: &[u8], list: Option<Revision>, error: String) -> Option<Undecodable> {
        let head = serde_json::from_slice(json).map(|Head { metadata }| metadata);
        let Some(head) = head.ok().filter(|head| !head.name.is_empty()) else {
            tracing::error!(error, "object without a readable name");
            return None;
        };
        let raw = Raw { json, list, versions: &self.versions };
        let revision = raw.revision_of(&head.resource_version);
        Some(Undecodable { key: Key::new(&head.namespace, &head.name), revision, error })
    }
}

fn garbled(error: &serde_json::Error) -> SourceError {
    SourceError::Internal(format!("the answer is not what was asked for: {error}"))
}
