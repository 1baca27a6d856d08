//! [`BodyReader`]: reads of an answer's body which revision of its kind it shows, as the body passes: JSON and Kubernetes' protobuf, also
//! compressed by gzip. Pure.

use crate::client::ActiveRequest;
use crate::client::view::{EventReader, revision_of_stored};
use crate::client::wire::{self, WireForm};
use crate::limits;
use crate::request::{LabEvent, RequestTarget, Verb};
use axum::body::Body;
use flate2::write::MultiGzDecoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, Response};
use http_body::Body as _;
use kstore_api::wire::protobuf;
use memchr::memmem;
use std::io::{self, Write as _};

/// Bytes at the beginning of a list in which its revision is: in protobuf the token of the next page, which has a key, comes with it.
const LIST_HEAD: usize = 8 * 1024;

/// Compressed bytes that are decompressed at a time: gzip makes at most some thousand times as many of them.
const GZIP_PIECE: usize = 1024;

/// Reads what an answer shows its client.
pub(super) struct BodyReader {
    form: WireForm,
    /// Of a compressed body.
    gzip: Option<Box<MultiGzDecoder<Vec<u8>>>>,
    content: Content,
}

/// What a body has, and what of it was read.
enum Content {
    /// Nothing: the request shows no revision, or it was read.
    None,
    /// The events of a watch.
    Watch(EventReader),
    /// A list, and the beginning of it that has come.
    List(Vec<u8>),
    /// A single object of so many bytes, if their number is known, and those that have come.
    Object(Option<u64>, Vec<u8>),
    /// A single object that has come as a whole, and its revision, if it has one.
    Read(Option<i64>),
    /// A form that the lab does not read.
    Unreadable,
}

impl Content {
    /// An object whose end has come. Its client may have it, and send its next request, before the end of the body is noticed: so what it
    /// shows is noted now.
    fn shown(revision: Option<i64>, active: &ActiveRequest) -> Self {
        // A Status may have no revision, and shows nothing then.
        if revision != Some(0) {
            active.showed(revision);
        }
        Self::Read(revision.filter(|revision| *revision > 0))
    }
}

impl BodyReader {
    /// A reader of an answer that shows nothing.
    pub(super) const NONE: Self = Self { form: WireForm::Json, gzip: None, content: Content::None };

    pub(super) fn of(response: &Response<Body>, target: Option<&RequestTarget>) -> Self {
        let Some(target) = target.filter(|_| response.status().is_success()) else { return Self::NONE };
        match target.verb {
            _ if !target.subresource.is_empty() && target.subresource != "status" => return Self::NONE,
            Verb::Call | Verb::DeleteCollection => return Self::NONE,
            _ => {}
        }
        let Some((form, is_gzip)) = form(response.headers()) else {
            return Self { content: Content::Unreadable, ..Self::NONE };
        };
        let gzip = is_gzip.then(|| Box::new(MultiGzDecoder::new(Vec::new())));
        let length = response.body().size_hint().exact().filter(|_| !is_gzip);
        let content = match target.verb {
            Verb::Watch => Content::Watch(EventReader::of(form)),
            Verb::List => Content::List(Vec::new()),
            _ => Content::Object(length, Vec::new()),
        };
        Self { form, gzip, content }
    }

    /// Whether the body is JSON that is not compressed.
    pub(super) fn is_plain(&self) -> bool {
        let is_read = !matches!(self.content, Content::None | Content::Unreadable);
        is_read && self.form == WireForm::Json && self.gzip.is_none()
    }

    /// Reads a part of the body. Returns the events of a watch that end in it.
    pub(super) fn read(&mut self, bytes: &[u8], active: &ActiveRequest) -> Vec<LabEvent> {
        let Some(mut gzip) = self.gzip.take() else { return self.plain(bytes, active) };
        let mut events = Vec::new();
        for piece in bytes.chunks(GZIP_PIECE) {
            if matches!(self.content, Content::None | Content::Unreadable) {
                break;
            }
            match decompressed(&mut gzip, piece) {
                Ok(plain) => events.extend(self.plain(&plain, active)),
                Err(_) => self.unreadable(active),
            }
        }
        self.gzip = Some(gzip);
        events
    }

    /// Reads a part of the decompressed body.
    fn plain(&mut self, bytes: &[u8], active: &ActiveRequest) -> Vec<LabEvent> {
        match &mut self.content {
            Content::None | Content::Read(_) => {}
            Content::Unreadable => self.unreadable(active),
            Content::Watch(events) => match events.read(bytes) {
                Some(events) => return events,
                None => self.unreadable(active),
            },
            Content::List(head) => {
                let free = LIST_HEAD - head.len();
                head.extend_from_slice(&bytes[..bytes.len().min(free)]);
                let revision = list_revision(self.form, head);
                if revision.is_some() || head.len() == LIST_HEAD {
                    active.showed(revision);
                    self.content = Content::None;
                }
            }
            // The answer in one piece, as most are, is not copied.
            Content::Object(Some(length), read) if read.is_empty() && *length == bytes.len() as u64 => {
                self.content = Content::shown(revision(self.form, bytes), active);
            }
            Content::Object(_, read) if read.len() + bytes.len() > limits::EVENT_BYTES => {
                self.unreadable(active);
            }
            Content::Object(length, read) => {
                read.extend_from_slice(bytes);
                if *length == Some(read.len() as u64) {
                    self.content = Content::shown(revision(self.form, read), active);
                }
            }
        }
        Vec::new()
    }

    /// What the body shows is not known.
    fn unreadable(&mut self, active: &ActiveRequest) {
        active.showed(None);
        self.content = Content::None;
    }

    /// Returns the revision of a single object.
    pub(super) fn finish(self, active: &ActiveRequest) -> Option<i64> {
        let content = match self.content {
            Content::Object(_, read) => Content::shown(revision(self.form, &read), active),
            content => content,
        };
        match content {
            Content::Read(version) => version,
            Content::List(_) | Content::Unreadable => {
                active.showed(None);
                None
            }
            Content::None | Content::Watch(_) | Content::Object(..) => None,
        }
    }
}

/// The form of a body, and whether it is compressed; `None`: the lab does not read it.
fn form(headers: &HeaderMap) -> Option<(WireForm, bool)> {
    let header = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let kind = header(CONTENT_TYPE)?.split(';').next()?;
    let form = match kind {
        "application/json" => WireForm::Json,
        protobuf::MEDIA_TYPE => WireForm::Protobuf,
        _ => return None,
    };
    match header(CONTENT_ENCODING) {
        None => Some((form, false)),
        Some("gzip") => Some((form, true)),
        Some(_) => None,
    }
}

/// What a piece of a compressed body has, as far as it has come.
fn decompressed(gzip: &mut MultiGzDecoder<Vec<u8>>, piece: &[u8]) -> io::Result<Vec<u8>> {
    gzip.write_all(piece)?;
    gzip.flush()?;
    Ok(std::mem::take(gzip.get_mut()))
}

/// The revision of an object, or 0 if it has none; `None` if it cannot be read.
fn revision(form: WireForm, body: &[u8]) -> Option<i64> {
    match form {
        WireForm::Json => revision_of_stored(body)
            .or_else(|| memmem::find(body, b"\"resourceVersion\"").is_none().then_some(0)),
        WireForm::Protobuf => wire::revision_of(body),
    }
}

/// The revision of a list, whose metadata come before its items; `None` if it is not among these bytes.
fn list_revision(form: WireForm, head: &[u8]) -> Option<i64> {
    if form == WireForm::Protobuf {
        return wire::list_revision(head);
    }
    let text = std::str::from_utf8(head)
        .unwrap_or_else(|error| std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default());
    let (before, after) = text.split_once("\"resourceVersion\":")?;
    let is_own = !before.contains("\"items\"");
    let after = after.trim_start().strip_prefix('"').filter(|_| is_own)?;
    after.split_once('"')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Arrival, Clients};
    use crate::request::EventType;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http::Method;
    use kstore_api::wire::protobuf::{encode, watch_frame};
    use serde_json::{Value, json};
    use std::sync::Arc;

    #[test]
    fn the_revision_of_a_list_is_read_from_its_beginning() {
        let json = |head: &[u8]| list_revision(WireForm::Json, head);
        let head = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"42"},"items":["#;
        assert_eq!(json(head), Some(42));
        assert_eq!(json(br#"{"items":[{"metadata":{"resourceVersion":"1"}}]}"#), None);
        assert_eq!(json(b"{\n  \"metadata\": {\n    \"resourceVersion\": \"42\"\n"), Some(42), "for people");
        assert_eq!(json(br#"{"metadata":{"resourceVersion":"42"#), None, "its end has not come");
    }

    fn zipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// A client that reads ConfigMaps, one of its requests, and the reader of the answer to it.
    fn reading(path: &str, kind: &str, coding: &str) -> (Arc<Clients>, ActiveRequest, BodyReader) {
        let target = RequestTarget::of(&Method::GET, &path.parse().unwrap()).map(Arc::new);
        let clients = Arc::new(Clients::default());
        let arrival = Arrival {
            user: "u",
            agent: "a",
            peer: None,
            target: target.as_ref(),
            path,
            is_long: false,
            program: None,
        };
        let active = clients.arrive(&arrival);
        let response = Response::builder().header(CONTENT_TYPE, kind);
        let response = match coding {
            "" => response,
            coding => response.header(CONTENT_ENCODING, coding),
        };
        let reader = BodyReader::of(
            &response.body(Body::from_stream(Body::empty().into_data_stream())).unwrap(),
            target.as_deref(),
        );
        (clients, active, reader)
    }

    fn list(revision: i64) -> Value {
        let item =
            json!({"metadata": {"name": "a", "resourceVersion": "99"}, "data": {"a": "b".repeat(3_000)}});
        json!({"kind": "ConfigMapList", "apiVersion": "v1",
            "metadata": {"resourceVersion": revision.to_string(), "continue": "c".repeat(600)}, "items": vec![item; 3]})
    }

    const MAPS: &str = "/api/v1/configmaps";

    #[test]
    fn lists_and_objects_are_read_in_each_form_however_their_bytes_are_cut() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b", "resourceVersion": "42"}});
        let one = "/api/v1/namespaces/b/configmaps/a";
        for (path, value) in [(MAPS, list(42)), (one, object)] {
            // As the server writes it: metadata come before items.
            let items = value["items"].to_string();
            let json = match path == MAPS {
                true => format!(
                    "{{\"kind\":\"ConfigMapList\",\"metadata\":{},\"items\":{items}}}",
                    value["metadata"]
                ),
                false => value.to_string(),
            };
            let bodies = [
                ("application/json", json.into_bytes()),
                ("application/vnd.kubernetes.protobuf", encode(&value).unwrap()),
            ];
            for ((kind, body), coding) in bodies.iter().flat_map(|body| [(body, ""), (body, "gzip")]) {
                let sent = if coding.is_empty() { body.clone() } else { zipped(body) };
                for size in [1, 7, 1_000, sent.len()] {
                    let (clients, active, mut reader) = reading(path, kind, coding);
                    for piece in sent.chunks(size) {
                        assert_eq!(reader.read(piece, &active), []);
                    }
                    reader.finish(&active);
                    let view = &clients.view("a").unwrap().kinds["configmaps"];
                    assert_eq!((view.delivered, view.partial), (42, false), "{kind} {coding} by {size}");
                }
            }
        }
    }

    #[test]
    fn a_compressed_watch_shows_each_event_once_its_chunk_has_come() {
        let event = |revision: i64| {
            let metadata = json!({"name": "a", "resourceVersion": revision.to_string()});
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
            let line = format!("{}\n", json!({"type": "ADDED", "object": object}));
            [line.into_bytes(), watch_frame("ADDED", &encode(&object).unwrap())]
        };
        let kinds = ["application/json", "application/vnd.kubernetes.protobuf;stream=watch"];
        for (form, kind) in kinds.into_iter().enumerate() {
            let (_, active, mut reader) = reading(&format!("{MAPS}?watch=true"), kind, "gzip");
            for revision in 1..5 {
                let chunk = zipped(&event(revision)[form]);
                let (begin, end) = chunk.split_at(chunk.len() / 2);
                let mut events = reader.read(begin, &active);
                events.extend(reader.read(end, &active));
                let found: Vec<_> = events.iter().map(|event| (event.kind, event.revision)).collect();
                assert_eq!(found, [(EventType::Added, revision)], "{kind}");
            }
        }
    }

    /// Regression: the next request of a client could come before the end of the body was noted, and its basis was too old.
    #[test]
    fn an_object_of_known_length_is_noted_with_its_last_byte() {
        let object = r#"{"kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"42"}}"#.to_owned();
        for size in [7, object.len()] {
            let (clients, active, _) = reading(&format!("{MAPS}/a"), "application/json", "");
            let target = RequestTarget::of(&Method::GET, &format!("{MAPS}/a").parse().unwrap());
            let response = Response::builder().header(CONTENT_TYPE, "application/json");
            let response = response.body(Body::from(object.clone())).unwrap();
            let mut reader = BodyReader::of(&response, target.as_ref());
            let delivered = || clients.view("a").unwrap().kinds["configmaps"].delivered;
            for piece in object.as_bytes().chunks(size) {
                assert_eq!(delivered(), 0);
                reader.read(piece, &active);
            }
            assert_eq!(delivered(), 42, "before the end of the body");
            assert_eq!(reader.finish(&active), Some(42));
        }
    }

    #[test]
    fn what_is_not_read_makes_the_view_partial() {
        let rows = [
            ("application/yaml", "", b"metadata: {}".to_vec()),
            ("application/json", "br", b"{}".to_vec()),
            ("application/json", "gzip", b"no gzip at all".to_vec()),
            ("application/vnd.kubernetes.protobuf", "", list(1).to_string().into_bytes()),
            ("application/json", "", vec![b' '; 2 * LIST_HEAD]),
        ];
        for (kind, coding, body) in rows {
            let (clients, active, mut reader) = reading(MAPS, kind, coding);
            reader.read(&body, &active);
            reader.finish(&active);
            assert!(clients.view("a").unwrap().basis()[0].partial, "{kind} {coding}");
        }
        let one = format!("{MAPS}/a");
        let (clients, active, mut reader) = reading(&one, "application/vnd.kubernetes.protobuf", "");
        reader.read(b"k8s\0\x0a\x7f", &active);
        reader.finish(&active);
        assert!(clients.view("a").unwrap().basis()[0].partial, "an object that ends too early");
        // The answer to a deletion.
        let (clients, active, _) = reading(MAPS, "application/json", "");
        let target = RequestTarget::of(&Method::DELETE, &format!("{MAPS}/a").parse().unwrap());
        let response =
            Response::builder().header(CONTENT_TYPE, "application/json").body(Body::empty()).unwrap();
        let mut reader = BodyReader::of(&response, target.as_ref());
        reader.read(br#"{"kind":"Status","metadata":{},"status":"Success"}"#, &active);
        assert_eq!(reader.finish(&active), None);
        assert!(!clients.view("a").unwrap().kinds["configmaps"].partial, "a Status shows nothing");
    }
}
