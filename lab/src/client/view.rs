//! The view of a client: for each kind that it reads, the newest revision that was delivered to it. Pure.

use super::wire::{self, WireForm};
use crate::basis::ViewAt;
use crate::limits;
use crate::request::{EventType, LabEvent, Verb, Version};
use memchr::memmem::{self, Finder};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What a client has been shown of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KindView {
    /// Newest revision that an event, a list, a GET or the answer of a write showed to the newest start of the client; 0 if none did.
    pub delivered: i64,
    /// Open watches.
    pub watches: u32,
    /// Events that were written.
    pub events: u64,
    /// Lists that were answered.
    pub lists: u64,
    /// Objects that were read one by one.
    pub gets: u64,
    /// Whether the client has ever begun a watch.
    #[serde(skip)]
    pub has_watched: bool,
    /// Whether the newest start of the client has begun to read the kind.
    #[serde(skip)]
    pub is_read: bool,
    /// Whether something was delivered in a form that the lab does not read, so that `delivered` may be too old.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// The views of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientView {
    /// By resource, as `plural.group`.
    pub kinds: BTreeMap<String, KindView>,
    /// Whether the client reads more kinds than are kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Whether it has ever listed with `resourceVersion=0`.
    pub lists_from_cache: bool,
}

impl ClientView {
    fn kind(&mut self, resource: &str) -> Option<&mut KindView> {
        if !self.kinds.contains_key(resource) {
            if self.kinds.len() >= limits::VIEW_KINDS {
                self.partial = true;
                return None;
            }
            self.kinds.insert(resource.to_owned(), KindView::default());
        }
        self.kinds.get_mut(resource)
    }

    /// The client began to read.
    pub fn began(&mut self, resource: &str, verb: Verb, version: Version) {
        self.lists_from_cache |= verb == Verb::List && version == Version::Any;
        let Some(kind) = self.kind(resource) else { return };
        kind.is_read |= !verb.is_write();
        match verb {
            Verb::Watch => {
                kind.watches += 1;
                kind.has_watched = true;
            }
            Verb::List => kind.lists += 1,
            Verb::Get => kind.gets += 1,
            _ => {}
        }
    }

    /// The client's program was started again, and has been shown nothing yet.
    pub fn restarted(&mut self) {
        for kind in self.kinds.values_mut() {
            (kind.delivered, kind.is_read, kind.partial) = (0, false, false);
        }
    }

    /// What the client has been shown of each kind that it reads. Nothing is said if it reads more kinds than are kept.
    pub fn basis(&self) -> Vec<ViewAt> {
        let kinds = self.kinds.iter().filter(|(_, kind)| kind.is_read && !self.partial);
        let view = |(resource, kind): (&String, &KindView)| ViewAt {
            resource: resource.clone(),
            delivered: kind.delivered,
            partial: kind.partial,
        };
        kinds.map(view).collect()
    }

    /// Whether the client has no watch any more of a kind that it watched, as while an informer waits before it lists again.
    pub fn is_interrupted(&self) -> bool {
        self.kinds.values().any(|kind| kind.has_watched && kind.watches == 0)
    }

    /// A watch of the client ended.
    pub fn watch_ended(&mut self, resource: &str) {
        if let Some(kind) = self.kinds.get_mut(resource) {
            kind.watches = kind.watches.saturating_sub(1);
        }
    }

    /// The client's connection took an event.
    pub fn delivered(&mut self, resource: &str, event: &LabEvent) {
        if let Some(kind) = self.kind(resource).filter(|_| event.kind != EventType::Error) {
            kind.delivered = kind.delivered.max(event.revision);
            kind.events += 1;
            // An object in a form that has no revision.
            kind.partial |= event.revision == 0;
        }
    }

    /// The client's connection took an answer that showed this revision of the kind.
    pub fn answered(&mut self, resource: &str, revision: i64) {
        if let Some(kind) = self.kind(resource) {
            kind.delivered = kind.delivered.max(revision);
        }
    }

    /// The client's connection took something that the lab does not read.
    pub fn unreadable(&mut self, resource: &str) {
        if let Some(kind) = self.kind(resource) {
            kind.partial = true;
        }
    }
}

/// The fields of a watch event that the lab reads.
#[derive(Deserialize)]
struct EventHead {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    object: ObjectHead,
}

#[derive(Default, Deserialize)]
struct ObjectHead {
    #[serde(default)]
    metadata: MetadataHead,
}

/// The members of an object's metadata that the lab reads.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MetadataHead {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
}

/// An event of this type with an object of these metadata.
fn event(kind: &str, metadata: MetadataHead) -> LabEvent {
    let kind = match kind {
        "ADDED" => EventType::Added,
        "MODIFIED" => EventType::Modified,
        "DELETED" => EventType::Deleted,
        "BOOKMARK" => EventType::Bookmark,
        _ => EventType::Error,
    };
    let MetadataHead { namespace, name, uid, resource_version } = metadata;
    LabEvent { kind, revision: resource_version.parse().unwrap_or(0), namespace, name, uid }
}

/// Splits the bytes of a watch, as they come, into events.
#[derive(Debug, Default)]
pub struct EventReader {
    form: WireForm,
    /// The beginning of an event whose end has not come.
    rest: Vec<u8>,
    /// Whether an event was longer than [`limits::EVENT_BYTES`]; the rest of the watch is not read.
    has_failed: bool,
}

impl EventReader {
    /// A reader of events in this form.
    pub fn of(form: WireForm) -> Self {
        Self { form, ..Self::default() }
    }

    /// The events that end in `bytes`; `None` if they cannot be read.
    pub fn read(&mut self, bytes: &[u8]) -> Option<Vec<LabEvent>> {
        let events = match self.has_failed || self.rest.len() + bytes.len() > limits::EVENT_BYTES {
            true => None,
            false => {
                self.rest.extend_from_slice(bytes);
                self.ended()
            }
        };
        if events.is_none() {
            (self.has_failed, self.rest) = (true, Vec::new());
        }
        events
    }

    /// Takes the events that have ended; `None` if one cannot be read.
    fn ended(&mut self) -> Option<Vec<LabEvent>> {
        let (mut events, mut taken) = (Vec::new(), 0);
        while let Some((frame, length)) = self.frame(taken) {
            let read = match self.form {
                WireForm::Json if frame.iter().all(u8::is_ascii_whitespace) => None,
                WireForm::Json => {
                    let head: EventHead = serde_json::from_slice(frame).ok()?;
                    Some(event(&head.kind, head.object.metadata))
                }
                WireForm::Protobuf => {
                    wire::event(frame).map(|(kind, metadata)| Some(event(&kind, metadata)))?
                }
            };
            events.extend(read);
            taken += length;
        }
        self.rest.drain(..taken);
        Some(events)
    }

    /// The first event after the bytes that were taken, and its length with what is around it.
    fn frame(&self, taken: usize) -> Option<(&[u8], usize)> {
        let rest = &self.rest[taken..];
        match self.form {
            WireForm::Json => memchr::memchr(b'\n', rest).map(|end| (&rest[..end], end + 1)),
            WireForm::Protobuf => wire::frame(rest),
        }
    }
}

/// The name of an object's revision and the begin of its value. Within a text the quotes would be escaped, so that this is a member.
const REVISION: &[u8] = b"\"resourceVersion\":\"";

/// Finds [`REVISION`]. Made once, since each GET looks for it.
static REVISIONS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(REVISION));

/// The revision of a stored object's JSON. An object that has one `resourceVersion` has it in its metadata, so that nothing else of it
/// has to be read; `None` if it has none.
pub fn revision_of_stored(json: &[u8]) -> Option<i64> {
    let Some(at) = REVISIONS.find(json) else { return revision_of(json) };
    let after = &json[at + REVISION.len()..];
    let end = memchr::memchr(b'"', after)?;
    match REVISIONS.find(&after[end..]) {
        None => std::str::from_utf8(&after[..end]).ok()?.parse().ok(),
        Some(_) => revision_of(json),
    }
}

/// The revision in the metadata of an object's or list's JSON; `None` if it cannot be read.
pub fn revision_of(json: &[u8]) -> Option<i64> {
    memmem::find(json, b"\"resourceVersion\"")?;
    let head: ObjectHead = serde_json::from_slice(json).ok()?;
    head.metadata.resource_version.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::wire::protobuf::{encode, watch_frame};
    use serde_json::json;

    fn line(kind: &str, name: &str, revision: i64) -> Vec<u8> {
        format!("{{\"type\":\"{kind}\",\"object\":{{\"metadata\":{{\"name\":\"{name}\",\"resourceVersion\":\"{revision}\"}},\"spec\":{{}}}}}}\n").into_bytes()
    }

    #[test]
    fn events_are_read_however_their_bytes_are_cut() {
        let bytes = [line("ADDED", "a", 3), line("BOOKMARK", "", 9)].concat();
        for cut in 0..bytes.len() {
            let mut reader = EventReader::default();
            let mut events = reader.read(&bytes[..cut]).unwrap();
            events.extend(reader.read(&bytes[cut..]).unwrap());
            let found: Vec<_> = events.iter().map(|event| (event.kind, event.revision)).collect();
            assert_eq!(found, [(EventType::Added, 3), (EventType::Bookmark, 9)]);
        }
        let mut reader = EventReader::default();
        assert_eq!(reader.read(b"\x00k8s\n"), None, "protobuf");
        assert_eq!(reader.read(&bytes), None);
    }

    #[test]
    fn events_in_protobuf_are_read_however_their_bytes_are_cut() {
        let object = |name: &str, revision: i64| {
            let metadata =
                json!({"name": name, "namespace": "ns", "uid": "u", "resourceVersion": revision.to_string()});
            encode(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap()
        };
        let status =
            json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "code": 410, "reason": "Expired"});
        let frames = [
            watch_frame("ADDED", &object("a", 3)),
            watch_frame("DELETED", &object("a", 5)),
            watch_frame("BOOKMARK", &object("", 9)),
            watch_frame("ERROR", &encode(&status).unwrap()),
        ];
        let bytes = frames.concat();
        for cut in 0..bytes.len() {
            let mut reader = EventReader::of(WireForm::Protobuf);
            let mut events = reader.read(&bytes[..cut]).unwrap();
            events.extend(reader.read(&bytes[cut..]).unwrap());
            let found: Vec<_> =
                events.iter().map(|event| (event.kind, event.name.as_str(), event.revision)).collect();
            let expected = [
                (EventType::Added, "a", 3),
                (EventType::Deleted, "a", 5),
                (EventType::Bookmark, "", 9),
                (EventType::Error, "", 0),
            ];
            assert_eq!(found, expected);
            assert_eq!((events[0].namespace.as_str(), events[0].uid.as_str()), ("ns", "u"));
        }
        let mut reader = EventReader::of(WireForm::Protobuf);
        assert_eq!(reader.read(b"\0\0\0\x02{}"), None, "JSON in a frame");
        assert_eq!(reader.read(&bytes), None);
        let mut reader = EventReader::of(WireForm::Protobuf);
        assert_eq!(reader.read(&[0xff; 8]), Some(Vec::new()), "an event whose end never comes");
        assert_eq!(reader.read(&vec![0; limits::EVENT_BYTES]), None, "is not kept");
    }

    #[test]
    fn a_program_that_was_started_again_has_been_shown_nothing() {
        let mut view = ClientView::default();
        view.began("pods", Verb::Watch, Version::Unset);
        view.answered("pods", 9);
        assert_eq!(view.basis(), [ViewAt { resource: "pods".to_owned(), delivered: 9, partial: false }]);
        view.restarted();
        assert_eq!((view.basis(), view.kinds["pods"].delivered), (Vec::new(), 0));
        view.began("pods", Verb::List, Version::Any);
        view.answered("pods", 4);
        assert_eq!(view.basis(), [ViewAt { resource: "pods".to_owned(), delivered: 4, partial: false }]);
        view.unreadable("pods");
        assert!(view.basis()[0].partial);
        view.began("nodes", Verb::Create, Version::Unset);
        assert_eq!(view.basis().len(), 1, "a kind that is only written");
    }

    #[test]
    fn a_view_has_the_newest_delivered_revision_of_each_kind() {
        let mut view = ClientView::default();
        view.began("pods", Verb::List, Version::Any);
        view.answered("pods", 5);
        view.began("pods", Verb::Watch, Version::Min(5));
        let events = EventReader::default().read(&line("MODIFIED", "a", 8)).unwrap();
        view.delivered("pods", &events[0]);
        let error = LabEvent { kind: EventType::Error, revision: 99, ..events[0].clone() };
        view.delivered("pods", &error);
        let kind = &view.kinds["pods"];
        assert_eq!((kind.delivered, kind.watches, kind.lists, kind.events), (8, 1, 1, 1));
        assert!(view.lists_from_cache);
        assert!(!view.is_interrupted(), "pods are watched");
        view.watch_ended("pods");
        assert_eq!(view.kinds["pods"].watches, 0);
        assert!(view.is_interrupted(), "until an informer opens its watch again");
        view.began("pods", Verb::Watch, Version::Min(8));
        assert!(!view.is_interrupted());
        view.began("nodes", Verb::List, Version::Any);
        assert!(!view.is_interrupted(), "a kind that was only listed");
    }

    #[test]
    fn kinds_beyond_the_bound_make_a_view_partial() {
        let mut view = ClientView::default();
        for number in 0..=limits::VIEW_KINDS {
            view.began(&format!("k{number}"), Verb::Get, Version::Unset);
        }
        assert!(view.partial && view.kinds.len() == limits::VIEW_KINDS);
        assert_eq!(view.basis(), [], "nothing is said of what it was shown");
    }

    #[test]
    fn the_revision_of_a_body_is_that_of_its_own_metadata() {
        let list = br#"{"items":[{"metadata":{"resourceVersion":"3"}}],"metadata":{"resourceVersion":"7"}}"#;
        assert_eq!(revision_of(list), Some(7));
        let rows: [(&[u8], _); 4] = [
            (br#"{"metadata":{"labels":{"resourceVersion":"3"},"resourceVersion":"7"}}"#, Some(7)),
            (br#"{"metadata":{"note":"\"resourceVersion\":\"4\"","resourceVersion":"8"}}"#, Some(8)),
            (br#"{ "metadata": { "resourceVersion": "9" } }"#, Some(9)),
            (br#"{"kind":"Status"}"#, None),
        ];
        for (json, found) in rows {
            assert_eq!(revision_of_stored(json), found);
        }
        assert_eq!(revision_of(b"{\"kind\":\"Status\"}"), None);
    }
}
