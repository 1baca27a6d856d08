//! [`ShownRecord`]: what the clients of a cluster asked and were shown: lists, events of watches, objects, and answers of writes. It is
//! kept for the checker of legality, only for clusters of which it is asked; for others a request costs one load from memory.

use crate::client::identity::short_agent;
use crate::host::Running;
use crate::legality::Delivered;
use crate::legality::observed::{Observed, ObservedChange, ShownAnswer, ShownRequest, object_key};
use crate::limits;
use crate::log::{LogFilter, RequestLog};
use crate::objects;
use crate::request::{EventType, RequestTarget, Verb, parameter};
use crate::writes;
use axum::body::Body;
use bytes::Bytes;
use http::Request;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http_body::{Frame, SizeHint};
use kstore_api::status::Status;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

/// Media type of server-side apply, whose `resourceVersion` is no condition.
const APPLY: &str = "application/apply-patch";

/// What clients of a cluster asked and were shown.
#[derive(Debug, Default)]
pub struct ShownRecord {
    is_kept: AtomicBool,
    state: Mutex<RecordState>,
}

#[derive(Debug, Default)]
struct RecordState {
    /// Revision at which the record begins.
    begin: i64,
    /// Objects at that revision.
    initial: Vec<ObservedChange>,
    requests: BTreeMap<u64, RecordedRequest>,
    /// Bytes that were read for the record.
    bytes: usize,
}

#[derive(Debug)]
struct RecordedRequest {
    shown: ShownRequest,
    /// Body of a write.
    sent: Vec<u8>,
    answer: AnswerReader,
}

/// Reads an answer.
#[derive(Debug)]
enum AnswerReader {
    /// An answer that is not read.
    Unread,
    /// A list or an object: its bytes so far.
    Whole(Vec<u8>),
    /// A watch: the beginning of an event whose end has not come, and the events so far.
    Events(Vec<u8>, Vec<Delivered>),
}

/// The members of lists that are read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ListHead {
    kind: String,
    metadata: MetadataHead,
    items: Vec<ItemHead>,
}

/// The members of objects and refusals that are read. An object may have any value as its `code`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectHead {
    kind: String,
    code: Value,
    metadata: MetadataHead,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ItemHead {
    metadata: MetadataHead,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MetadataHead {
    namespace: String,
    name: String,
    resource_version: String,
    #[serde(rename = "continue")]
    next: String,
    annotations: BTreeMap<String, String>,
    labels: Map<String, Value>,
}

#[derive(Deserialize)]
struct EventHead {
    #[serde(rename = "type")]
    kind: EventType,
    object: ObjectHead,
}

/// The members of a written object, or of options of a deletion, that are read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct SentHead {
    metadata: MetadataHead,
    preconditions: PreconditionsHead,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PreconditionsHead {
    resource_version: String,
}

impl MetadataHead {
    fn revision(&self) -> i64 {
        self.resource_version.parse().unwrap_or(0)
    }

    fn key(&self) -> String {
        object_key(&self.namespace, &self.name)
    }
}

impl ShownRecord {
    /// Begins the record. Requests that came before are not in it.
    pub fn keep(&self, running: &Running) {
        let store = running.store();
        let change = |(resource, revision, object): (String, i64, Value)| {
            let head: ItemHead = serde_json::from_value(object).unwrap_or_default();
            let MetadataHead { namespace, name, labels, .. } = head.metadata;
            let agent = String::new();
            ObservedChange { revision, resource, namespace, name, labels, exists: true, agent }
        };
        let mut state = self.state.lock();
        state.begin = store.revision().0;
        state.initial = objects::versions(store).into_iter().map(change).collect();
        drop(state);
        self.is_kept.store(true, Ordering::Release);
    }

    /// Whether requests are recorded.
    pub fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Acquire)
    }

    /// Notes a request that has come, at a revision of the store.
    pub(crate) fn began(&self, n: u64, parts: &Parts, target: Option<&RequestTarget>, revision: i64) {
        let Some(target) = target.filter(|target| self.is_kept() && !target.resource.is_empty()) else {
            return;
        };
        let text = |name: &str| parameter(&parts.uri, name).unwrap_or_default();
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_limited = !["", "0"].contains(&&*text("limit"));
        let is_page = !text("continue").is_empty() || is_limited && !text("resourceVersion").is_empty();
        let shown = ShownRequest {
            n,
            target: target.clone(),
            agent: short_agent(header(USER_AGENT)).to_owned(),
            labels: text("labelSelector"),
            fields: text("fieldSelector"),
            is_page,
            is_plain: text("dryRun").is_empty() && !header(CONTENT_TYPE).starts_with(APPLY),
            began: revision,
            ended: 0,
            code: 0,
            fault: String::new(),
            sent: 0,
            answer: ShownAnswer::Unread,
        };
        let recorded = RecordedRequest { shown, sent: Vec::new(), answer: AnswerReader::Unread };
        self.state.lock().requests.insert(n, recorded);
    }

    /// The request with a body of which the record gets a copy.
    pub(crate) fn copied(
        self: &Arc<Self>,
        n: u64,
        target: Option<&RequestTarget>,
        request: Request<Body>,
    ) -> Request<Body> {
        if !self.is_kept() || !target.is_some_and(|target| target.verb.is_write()) {
            return request;
        }
        let record = self.clone();
        request.map(|body| Body::new(CopiedBody { body, record, n }))
    }

    /// Runs `change` on a request, unless the record has as many bytes as it may: then the rest of it is not read.
    fn change(&self, n: u64, bytes: usize, change: impl FnOnce(&mut RecordedRequest)) {
        if !self.is_kept() {
            return;
        }
        let mut state = self.state.lock();
        state.bytes += bytes;
        let is_full = state.bytes > limits::SHOWN_BYTES;
        let Some(request) = state.requests.get_mut(&n) else { return };
        change(request);
        if is_full {
            request.unread();
        }
    }

    /// Notes the head of an answer. Only JSON that is not compressed is read.
    pub(crate) fn answered(&self, n: u64, code: u16, is_readable: bool) {
        self.change(n, 0, |request| {
            request.shown.code = code;
            let is_read = is_readable && (200..300).contains(&code);
            request.answer = match request.shown.target.verb {
                _ if !is_read => AnswerReader::Unread,
                Verb::Watch => AnswerReader::Events(Vec::new(), Vec::new()),
                _ => AnswerReader::Whole(Vec::new()),
            };
        });
    }

    /// Notes bytes of an answer that its connection gets.
    pub(crate) fn read(&self, n: u64, bytes: &[u8]) {
        self.change(n, bytes.len(), |request| request.read(bytes));
    }

    /// Notes the end of an answer, at a revision of the store.
    pub(crate) fn ended(&self, n: u64, revision: i64) {
        self.change(n, 0, |request| {
            request.shown.ended = revision;
            request.finish();
        });
    }

    /// What was observed so far: the record, the changes of objects since its begin, and the faults of the request log. Must run on the
    /// cluster's runtime.
    ///
    /// # Errors
    /// 410: the history does not reach back to the begin.
    pub async fn observed(&self, running: &Running, log: &RequestLog) -> Result<Observed, Status> {
        let (begin, mut changes) = {
            let state = self.state.lock();
            (state.begin, state.initial.clone())
        };
        let head = running.store().revision().0;
        for write in
            writes::whole(running, log, begin).await?.into_iter().filter(|write| write.revision <= head)
        {
            let agent = short_agent(&write.agent).to_owned();
            changes.extend(write.objects.into_iter().map(|object| ObservedChange {
                revision: write.revision,
                resource: object.resource,
                namespace: object.namespace,
                name: object.name,
                labels: labels(object.after.as_ref()),
                exists: object.effect != "deleted",
                agent: agent.clone(),
            }));
        }
        changes.sort_by_key(|change| change.revision);
        let (logged, _) = log.read(&LogFilter::default(), None, usize::MAX).unwrap_or_default();
        let mut faults: BTreeMap<u64, String> = logged
            .into_iter()
            .filter(|entry| !entry.fault.is_empty())
            .map(|entry| (entry.n, entry.fault))
            .collect();
        let state = self.state.lock();
        let requests = state.requests.iter().map(|(n, request)| {
            let mut shown = request.shown.clone();
            shown.fault = faults.remove(n).unwrap_or_default();
            if let AnswerReader::Events(_, events) = &request.answer {
                shown.answer = ShownAnswer::Events(events.clone());
            }
            shown
        });
        Ok(Observed { changes, begin, head, requests: requests.collect() })
    }
}

fn labels(object: Option<&Value>) -> Map<String, Value> {
    object.and_then(|object| object["metadata"]["labels"].as_object()).cloned().unwrap_or_default()
}

impl RecordedRequest {
    fn unread(&mut self) {
        (self.answer, self.sent) = (AnswerReader::Unread, Vec::new());
    }

    fn read(&mut self, bytes: &[u8]) {
        match &mut self.answer {
            AnswerReader::Unread => {}
            AnswerReader::Whole(read) => match read.len() + bytes.len() <= limits::SHOWN_ANSWER {
                true => read.extend_from_slice(bytes),
                false => self.unread(),
            },
            AnswerReader::Events(rest, events) => {
                rest.extend_from_slice(bytes);
                while let Some(end) = memchr::memchr(b'\n', rest) {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    match serde_json::from_slice(&line) {
                        Ok(head) => events.push(delivered(head)),
                        Err(_) if line.iter().all(u8::is_ascii_whitespace) => {}
                        Err(_) => return self.unread(),
                    }
                }
                if rest.len() > limits::SHOWN_ANSWER || events.iter().any(|event| event.revision < 0) {
                    self.unread();
                }
            }
        }
    }

    fn finish(&mut self) {
        let sent: SentHead = serde_json::from_slice(&self.sent).unwrap_or_default();
        self.shown.sent =
            sent.metadata.revision().max(sent.preconditions.resource_version.parse().unwrap_or(0));
        self.sent = Vec::new();
        self.shown.answer = match std::mem::replace(&mut self.answer, AnswerReader::Unread) {
            AnswerReader::Unread => ShownAnswer::Unread,
            AnswerReader::Events(_, events) => ShownAnswer::Events(events),
            AnswerReader::Whole(bytes) => match self.shown.target.verb {
                Verb::List => list(&bytes),
                _ => object(&bytes),
            },
        };
    }
}

/// A list; a table is none.
fn list(bytes: &[u8]) -> ShownAnswer {
    let head: ListHead = serde_json::from_slice(bytes).unwrap_or_default();
    match head.kind.ends_with("List") {
        true => ShownAnswer::List {
            revision: head.metadata.revision(),
            has_more: !head.metadata.next.is_empty(),
            objects: head.items.iter().map(|item| (item.metadata.key(), item.metadata.revision())).collect(),
        },
        false => ShownAnswer::Unread,
    }
}

/// An object; tables and refusals are none.
fn object(bytes: &[u8]) -> ShownAnswer {
    let head: ObjectHead = serde_json::from_slice(bytes).unwrap_or_default();
    match ["Status", "Table"].contains(&&*head.kind) || head.metadata.name.is_empty() {
        true => ShownAnswer::Unread,
        false => ShownAnswer::Object { object: head.metadata.key(), revision: head.metadata.revision() },
    }
}

/// An event. That of a table, which has no revision of its own, has the revision -1.
fn delivered(head: EventHead) -> Delivered {
    let EventHead { kind, object } = head;
    let revision = match kind {
        EventType::Error => object.code.as_i64().unwrap_or(0),
        _ if object.kind == "Table" => -1,
        _ => object.metadata.revision(),
    };
    let is_initial_end =
        object.metadata.annotations.get("k8s.io/initial-events-end").is_some_and(|mark| mark == "true");
    let is_mark = matches!(kind, EventType::Bookmark | EventType::Error);
    let object = if is_mark { String::new() } else { object.metadata.key() };
    Delivered { kind, object, revision, is_initial_end }
}

/// The body of a write, of which the record gets a copy.
struct CopiedBody {
    body: Body,
    record: Arc<ShownRecord>,
    n: u64,
}

impl http_body::Body for CopiedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let next = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(bytes) = next.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
            self.record.change(self.n, bytes.len(), |request| request.sent.extend_from_slice(bytes));
        }
        Poll::Ready(next)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
