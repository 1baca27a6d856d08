//! [`BodyReader`]: reads of an answer's body which revision of its kind it shows, as the body passes. Pure.

use crate::client::ActiveRequest;
use crate::client::view::{EventReader, revision_of_stored};
use crate::limits;
use crate::request::{LabEvent, RequestTarget, Verb};
use axum::body::Body;
use http::Response;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName};
use http_body::Body as _;

/// Bytes at the beginning of a list in which its revision is.
const LIST_HEAD: usize = 512;

/// Reads what an answer shows its client.
pub(super) enum BodyReader {
    /// Nothing: the request shows no revision.
    None,
    /// The events of a watch.
    Watch(EventReader),
    /// The beginning of a list.
    List(bool),
    /// A single object of so many bytes, if their number is known, and those that have come.
    Object(Option<u64>, Vec<u8>),
    /// A single object that has come as a whole, and its revision.
    Read(Option<i64>),
    /// A form that the lab does not read.
    Unreadable,
}

impl BodyReader {
    pub(super) fn of(response: &Response<Body>, target: Option<&RequestTarget>) -> Self {
        let Some(target) = target.filter(|_| response.status().is_success()) else { return Self::None };
        let header = |name: HeaderName| response.headers().get(name).and_then(|value| value.to_str().ok());
        let is_json = header(CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/json"));
        match target.verb {
            _ if !target.subresource.is_empty() && target.subresource != "status" => Self::None,
            Verb::Call | Verb::DeleteCollection => Self::None,
            _ if !is_json || header(CONTENT_ENCODING).is_some() => Self::Unreadable,
            Verb::Watch => Self::Watch(EventReader::default()),
            Verb::List => Self::List(false),
            _ => Self::Object(response.body().size_hint().exact(), Vec::new()),
        }
    }

    /// Reads a part of the body. Returns the events of a watch that end in it.
    pub(super) fn read(&mut self, bytes: &[u8], active: &ActiveRequest) -> Vec<LabEvent> {
        match self {
            Self::None | Self::Read(_) => {}
            Self::Unreadable => {
                active.showed(None);
                *self = Self::None;
            }
            Self::Watch(events) => match events.read(bytes) {
                Some(events) => return events,
                None => *self = Self::Unreadable,
            },
            Self::List(is_read) => {
                if !std::mem::replace(is_read, true) {
                    active.showed(list_revision(&bytes[..bytes.len().min(LIST_HEAD)]));
                }
            }
            // The answer in one piece, as most are, is not copied.
            Self::Object(Some(length), read) if read.is_empty() && *length == bytes.len() as u64 => {
                *self = Self::Read(revision_of_stored(bytes));
            }
            Self::Object(_, read) => match read.len() + bytes.len() <= limits::EVENT_BYTES {
                true => read.extend_from_slice(bytes),
                false => *self = Self::Unreadable,
            },
        }
        Vec::new()
    }

    /// Returns the revision of a single object.
    pub(super) fn finish(self, active: &ActiveRequest) -> Option<i64> {
        let version = match self {
            Self::Object(_, read) => revision_of_stored(&read),
            Self::Read(version) => version,
            Self::Unreadable => None,
            Self::None | Self::Watch(_) | Self::List(_) => return None,
        };
        active.showed(version);
        version
    }
}

/// The revision of a list, whose metadata come before its items.
fn list_revision(head: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(head)
        .unwrap_or_else(|error| std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default());
    let (before, after) = text.split_once("\"resourceVersion\":\"")?;
    let is_own = !before.contains("\"items\"");
    after.split_once('"').filter(|_| is_own)?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_of_a_list_is_read_from_its_beginning() {
        let head = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"42"},"items":["#;
        assert_eq!(list_revision(head), Some(42));
        assert_eq!(list_revision(br#"{"items":[{"metadata":{"resourceVersion":"1"}}]}"#), None);
    }
}
