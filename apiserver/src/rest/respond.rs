//! Answers → HTTP responses. The bytes of stored objects are sent as they are cached; other versions, YAML,
//! tables and indented text are encoded anew. `content` negotiates the form; `listing` streams long lists.

use super::content::{Accepted, Encoding, Transform};
use super::listing::{Chunks, Gzipped, Listing};
use super::table::{Include, Tables, partial};
use super::text;
use super::watch::{self, WatchForm};
use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, VARY, WARNING,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Response, StatusCode};
use kstore_api::json;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_api::wire::protobuf;
use kstore_nondet::Nondet;
use kstore_pipeline::pipeline::{Answer, Answered, Refused, TOO_MANY};
use kstore_registry::cache::{self, Form, MetaVersion};
use kstore_registry::conversion::{Converter, in_version};
use kstore_registry::entry::Entry;
use kstore_registry::kinds::CustomVersion;
use kstore_registry::registry::Listed;
use serde_json::{Value, json};
use std::sync::Arc;

/// Bytes from which answers are compressed, if the client accepts that (Kubernetes' threshold).
const GZIP_FROM_BYTES: usize = 128 * 1024;

/// The negotiated form of one request's response.
pub struct Reply {
    /// The kind, in the caller's version.
    pub resource: &'static Resource,
    /// The definition of a custom kind.
    pub custom: Option<CustomVersion>,
    /// The negotiated encoding and transformation.
    pub accepted: Accepted,
    /// The objects that table rows contain.
    pub include: Include,
    /// Whether the client accepts gzip.
    pub gzip: bool,
    /// Whether a watch that begins with the state is compressed, too.
    pub(crate) gzips_watches: bool,
    /// Options of a watch's stream.
    pub watch: watch::WatchLifetime,
    /// Client of conversion webhooks.
    pub(crate) converter: Arc<Converter>,
    /// Clock for ages in tables; clock and randomness for the ends of watches.
    pub nondet: Nondet,
}

impl Reply {
    /// Builds the response for an answer or a refusal.
    pub fn response(&self, answered: Result<Answered, Refused>) -> Response<Body> {
        let (mut response, warnings) = match answered {
            Ok(answered) => {
                let computed = self.answer(answered.answer);
                (computed.unwrap_or_else(|status| self.refusal(&status)), answered.warnings)
            }
            Err(refused) => (self.refusal(&refused.status), refused.warnings),
        };
        for warning in &warnings {
            if let Ok(value) = HeaderValue::from_str(&warning_header(warning)) {
                response.headers_mut().append(WARNING, value);
            }
        }
        response
    }

    /// Builds the response for a refusal, in the negotiated encoding.
    pub fn refusal(&self, status: &Status) -> Response<Body> {
        refusal_as(status, self.accepted.encoding)
    }

    fn answer(&self, answer: Answer) -> Result<Response<Body>, Status> {
        Ok(match answer {
            Answer::Object(object) => self.object(&object.entry, created(object.created))?,
            Answer::Value { value, created: new } => self.unstored(&value, created(new))?,
            Answer::Status { status, revision } => {
                status_response(&status.at_revision(revision), self.accepted.encoding)
            }
            Answer::List(listed) => self.list(listed)?,
            Answer::Watch(watch) => self.watch(*watch),
        })
    }

    /// The answer as one JSON value in the caller's version, without the negotiated encoding; `None` for a watch.
    pub(super) fn plain(&self, answer: &Answer) -> Option<Value> {
        Some(match answer {
            Answer::Object(object) => self.shown(&object.entry),
            Answer::Value { value, .. } => value.clone(),
            Answer::Status { status, revision } => {
                serde_json::to_value(status.clone().at_revision(*revision)).ok()?
            }
            Answer::List(listed) => {
                let items: Vec<_> = listed.items.iter().map(|entry| item(self.resource, entry)).collect();
                json!({"kind": self.resource.list_kind(), "apiVersion": self.resource.api_version(),
                    "metadata": list_meta(listed), "items": items})
            }
            Answer::Watch(_) => return None,
        })
    }

    fn object(&self, entry: &Entry, code: StatusCode) -> Result<Response<Body>, Status> {
        let shared = self.is_stored_version(entry);
        let now = || self.nondet.clock.now();
        match (self.accepted.transform, self.accepted.encoding) {
            (Transform::None, Encoding::Json) if shared => {
                let mut body = BytesMut::with_capacity(entry.json_len() + 1);
                entry.put_json(&mut body);
                body.put_u8(b'\n');
                Ok(self.send(code, body.freeze()))
            }
            (Transform::None, Encoding::Protobuf) if shared => match cache::enveloped(entry) {
                Some(body) => Ok(self.send(code, body.into())),
                None => self.in_json().object(entry, code),
            },
            (Transform::None, _) => self.value(&self.shown(entry), code),
            (Transform::Table(version), _) => {
                let metadata = json!({"resourceVersion": entry.revision.to_string()});
                self.value(&self.tables(version).of(std::iter::once(entry), metadata, now()), code)
            }
            (Transform::Partial(version), Encoding::Protobuf) => {
                let kind = "PartialObjectMetadata";
                match cache::partial_message(entry) {
                    Some(message) => {
                        Ok(self.send(code, cache::envelope(version.api_version(), kind, &message).into()))
                    }
                    None => self.in_json().object(entry, code),
                }
            }
            (Transform::Partial(version), _) => self.value(&partial(entry.parse_metadata(), version), code),
        }
    }

    /// The response for an object that is not a stored entry. Only Scale and ComponentStatus have table
    /// columns.
    fn unstored(&self, value: &Value, code: StatusCode) -> Result<Response<Body>, Status> {
        match self.accepted.transform {
            Transform::Table(version) if value["kind"] == "Scale" => {
                let now = self.nondet.clock.now();
                self.value(&self.tables(version).scale(value, now), code)
            }
            Transform::Table(version) if self.resource.kind == "ComponentStatus" => {
                let now = self.nondet.clock.now();
                self.value(&self.tables(version).computed(value, now), code)
            }
            Transform::Partial(version) => self.value(&partial(value["metadata"].clone(), version), code),
            Transform::None | Transform::Table(_) => self.value(value, code),
        }
    }

    fn list(&self, listed: Listed) -> Result<Response<Body>, Status> {
        let mut metadata = list_meta(&listed);
        if self.resource.is_custom() && metadata["continue"].is_null() {
            // Lists of custom kinds state an empty `continue` on their last page, as in Kubernetes.
            metadata["continue"] = json!("");
        }
        let (kind, api_version) = (self.resource.list_kind(), self.resource.api_version());
        let row = self.resource;
        match (self.accepted.transform, self.accepted.encoding) {
            (Transform::None, Encoding::Protobuf) => {
                let message = |entry: &Arc<Entry>| self.message(entry);
                match listed.items.iter().map(message).collect::<Option<_>>() {
                    Some(messages) => Ok(self.messages(&kind, &api_version, &listed, messages)),
                    None => self.in_json().list(listed),
                }
            }
            (Transform::Partial(version), Encoding::Protobuf) => {
                let messages =
                    listed.items.iter().map(|entry| cache::partial_message(entry).map(Bytes::from));
                let kind = "PartialObjectMetadataList";
                match messages.collect::<Option<_>>() {
                    Some(messages) => Ok(self.messages(kind, version.api_version(), &listed, messages)),
                    None => self.in_json().list(listed),
                }
            }
            // Items of custom kinds state their type.
            (Transform::None, Encoding::Json) if row.is_custom() => {
                let head = list_head(&kind, &api_version, &metadata, "items");
                let put = |entry: &Arc<Entry>, out: &mut BytesMut| entry.put_json(out);
                Ok(self.stream(Listing::new(head, listed.items, put, ",", LIST_TAIL), None))
            }
            (Transform::None, Encoding::Json)
                if listed.items.iter().all(|entry| self.is_stored_version(entry)) =>
            {
                let head = list_head(&kind, &api_version, &metadata, "items");
                let items: usize = listed.items.iter().map(|entry| entry.item_len() + 1).sum();
                let length = head.len() + items.saturating_sub(1) + LIST_TAIL.len();
                let put = |entry: &Arc<Entry>, out: &mut BytesMut| entry.put_item(out);
                Ok(self.stream(Listing::new(head, listed.items, put, ",", LIST_TAIL), Some(length)))
            }
            (Transform::None, encoding) => {
                let rest = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
                Ok(self.listing(&rest, "items", listed.items, encoding, move |entry| item(row, entry)))
            }
            (Transform::Partial(version), Encoding::Json) => {
                let head = list_head("PartialObjectMetadataList", version.api_version(), &metadata, "items");
                let put =
                    move |entry: &Arc<Entry>, out: &mut BytesMut| cache::put_partial(entry, version, out);
                Ok(self.stream(Listing::new(head, listed.items, put, ",", LIST_TAIL), None))
            }
            (Transform::Partial(version), encoding) => {
                let rest = json!({"apiVersion": version.api_version(), "kind": "PartialObjectMetadataList",
                    "metadata": metadata});
                let make = move |entry: &Entry| partial(entry.parse_metadata(), version);
                Ok(self.listing(&rest, "items", listed.items, encoding, make))
            }
            (Transform::Table(version), Encoding::Json) => {
                let (tables, now) = (self.tables(version).marking(&listed.items), self.nondet.clock.now());
                let head = before(&tables.head(metadata), "rows");
                let put = move |entry: &Arc<Entry>, out: &mut BytesMut| tables.put_row(entry, now, out);
                Ok(self.stream(Listing::new(head, listed.items, put, ",", LIST_TAIL), None))
            }
            (Transform::Table(version), encoding) => {
                let (tables, now) = (self.tables(version).marking(&listed.items), self.nondet.clock.now());
                let rest = tables.head(metadata);
                let make = move |entry: &Entry| tables.row(entry, now);
                Ok(self.listing(&rest, "rows", listed.items, encoding, make))
            }
        }
    }

    /// Streams a list whose items are encoded while it is sent.
    fn listing(
        &self,
        rest: &Value,
        member: &'static str,
        items: Vec<Arc<Entry>>,
        encoding: Encoding,
        make: impl Fn(&Entry) -> Value + Send + 'static,
    ) -> Response<Body> {
        let as_yaml = encoding == Encoding::Yaml;
        let (head, tail) = match encoding {
            Encoding::Yaml | Encoding::PrettyJson => text::around(rest, member, items.is_empty(), as_yaml),
            Encoding::Json | Encoding::Protobuf => (before(rest, member), LIST_TAIL.into()),
        };
        let separator = if as_yaml { "" } else { "," };
        let put = move |entry: &Arc<Entry>, out: &mut BytesMut| match encoding {
            Encoding::Yaml => text::put_yaml_item(&make(entry), out),
            Encoding::PrettyJson => text::put_pretty_item(&make(entry), out),
            Encoding::Json | Encoding::Protobuf => out.put_slice(&json::to_vec(&make(entry))),
        };
        self.stream(Listing::new(head, items, put, separator, tail), None)
    }

    /// Streams a list of protobuf messages. Lengths precede the messages, so all messages must be available;
    /// usually they are cached.
    fn messages(
        &self,
        kind: &str,
        api_version: &str,
        listed: &Listed,
        messages: Vec<Bytes>,
    ) -> Response<Body> {
        let meta =
            protobuf::list_meta(&listed.revision.to_string(), &listed.continue_token, listed.remaining);
        let items: usize = messages.iter().map(|m| protobuf::item_head(m.len()).len() + m.len()).sum();
        let mut head = protobuf::envelope_head(api_version, kind, meta.len() + items);
        head.extend_from_slice(&meta);
        let length = head.len() + items + protobuf::ENVELOPE_TAIL.len();
        let put = |message: &Bytes, out: &mut BytesMut| {
            out.put_slice(&protobuf::item_head(message.len()));
            out.put_slice(message);
        };
        let listing = Listing::new(head, messages, put, "", &protobuf::ENVELOPE_TAIL[..]);
        self.stream(listing, Some(length))
    }

    /// The same response form with JSON: for objects with values that a protobuf message cannot contain.
    fn in_json(&self) -> Self {
        let accepted = Accepted { encoding: Encoding::Json, ..self.accepted };
        let (watch, nondet) = (self.watch.clone(), self.nondet.clone());
        let (resource, custom) = (self.resource, self.custom.clone());
        let (include, gzip, converter) = (self.include, self.gzip, self.converter.clone());
        let gzips_watches = self.gzips_watches;
        Self { resource, custom, accepted, include, gzip, gzips_watches, watch, converter, nondet }
    }

    /// Encodes an item as a protobuf message in the caller's version.
    fn message(&self, entry: &Entry) -> Option<Bytes> {
        match self.is_stored_version(entry) {
            true => entry.message(),
            false => protobuf::bare(&self.shown(entry)).ok().map(Bytes::from),
        }
    }

    fn watch(&self, watch: cache::Watch) -> Response<Body> {
        let protobuf = self.accepted.encoding == Encoding::Protobuf;
        let form = match self.accepted.transform {
            Transform::None => WatchForm::Shared(if protobuf { Form::Protobuf } else { Form::Json }),
            Transform::Table(version) => WatchForm::Tables(self.tables(version)),
            Transform::Partial(version) if protobuf => WatchForm::Shared(Form::PartialProtobuf(version)),
            Transform::Partial(version) => WatchForm::Shared(Form::Partial(version)),
        };
        let content_type =
            if protobuf { "application/vnd.kubernetes.protobuf;stream=watch" } else { "application/json" };
        let gzip = self.gzip && self.gzips_watches && self.watch.mark_initial_end.is_some();
        let (resource, converter) = (self.resource, self.converter.clone());
        let shown = watch::EventFormat { resource, converter, form, gzip };
        let body = watch::body(watch, shown, self.watch.clone(), self.nondet.clone());
        let response = response(StatusCode::OK, content_type, body);
        if gzip { zipped(response) } else { response }
    }

    fn tables(&self, version: MetaVersion) -> Tables {
        let (resource, custom) = (self.resource, self.custom.clone());
        Tables { resource, custom, version, include: self.include, default: None }
    }

    fn is_stored_version(&self, entry: &Entry) -> bool {
        entry.resource.is_same_version(self.resource)
    }

    /// The object in the caller's version.
    fn shown(&self, entry: &Entry) -> Value {
        in_version(self.resource, entry.parse())
    }

    /// Responds with a value in the negotiated encoding.
    fn value(&self, value: &Value, code: StatusCode) -> Result<Response<Body>, Status> {
        let body = encode(value, self.accepted.encoding).map_err(Status::internal)?;
        Ok(self.send(code, body))
    }

    fn send(&self, code: StatusCode, body: Bytes) -> Response<Body> {
        let content_type = self.accepted.encoding.content_type();
        if !self.gzip || body.len() <= GZIP_FROM_BYTES {
            return response(code, content_type, Body::from(body));
        }
        zipped(response(
            code,
            content_type,
            Body::new(Chunks::new(Gzipped::new(std::iter::once(body)), None)),
        ))
    }

    /// Responds with chunks that are encoded while they are sent; `length` is their total size, if known.
    fn stream<T: Send + Unpin + 'static>(
        &self,
        mut chunks: Listing<T>,
        length: Option<usize>,
    ) -> Response<Body> {
        let content_type = self.accepted.encoding.content_type();
        if !self.gzip {
            return response(StatusCode::OK, content_type, Body::new(Chunks::new(chunks, length)));
        }
        // Short answers are not compressed; so chunks are collected until the threshold is reached.
        let mut computed: Vec<Bytes> = Vec::new();
        let mut bytes = 0;
        while bytes <= GZIP_FROM_BYTES {
            let Some(chunk) = chunks.next() else {
                return response(StatusCode::OK, content_type, Body::from(computed.concat()));
            };
            bytes += chunk.len();
            computed.push(chunk);
        }
        let chunks = Gzipped::new(computed.into_iter().chain(chunks));
        zipped(response(StatusCode::OK, content_type, Body::new(Chunks::new(chunks, None))))
    }
}

const LIST_TAIL: &str = "]}\n";

fn list_head(kind: &str, api_version: &str, metadata: &Value, member: &str) -> Bytes {
    format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"{member}\":[")
        .into()
}

/// A JSON document up to the items of its last member.
fn before(rest: &Value, member: &str) -> Bytes {
    let mut head = rest.to_string();
    head.pop();
    format!("{head},\"{member}\":[").into()
}

/// An item of a list. Items of built-in kinds do not state their type.
fn item(row: &'static Resource, entry: &Entry) -> Value {
    let mut value = in_version(row, entry.parse());
    if row.is_custom() {
        return value;
    }
    value.as_object_mut().map(|o| (o.remove("kind"), o.remove("apiVersion")));
    value
}

fn zipped(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

/// Encodes a value; text ends with a newline.
///
/// # Errors
/// If the value has no protobuf encoding.
pub fn encode(value: &Value, encoding: Encoding) -> Result<Bytes, protobuf::WireError> {
    let mut text = match encoding {
        Encoding::Json => json::to_string(value),
        Encoding::PrettyJson => text::pretty(value),
        Encoding::Yaml => return Ok(kstore_api::yaml::encode(value).into()),
        Encoding::Protobuf => return protobuf::encode(value).map(Bytes::from),
    };
    text.push('\n');
    Ok(text.into())
}

/// A refusal as JSON, with the status code of the Status.
pub fn refusal(status: &Status) -> Response<Body> {
    refusal_as(status, Encoding::Json)
}

/// A refusal in an encoding, with the status code of the Status.
pub fn refusal_as(status: &Status, encoding: Encoding) -> Response<Body> {
    let mut response = match status.code {
        // Kubernetes' answer before it has read the request.
        429 if status.message == TOO_MANY => plain(StatusCode::TOO_MANY_REQUESTS, TOO_MANY),
        _ => status_response(status, encoding),
    };
    if let Some(seconds) = status.retry_after_seconds() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn status_response(status: &Status, encoding: Encoding) -> Response<Body> {
    let (content_type, body) = status_body(status, encoding);
    // A Status of a success may omit its code.
    let code = match status.code {
        0 => StatusCode::OK,
        code => StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
    };
    response(code, content_type, Body::from(body))
}

/// Encodes a Status. JSON is the fallback, since every Status has it.
fn status_body(status: &Status, encoding: Encoding) -> (&'static str, Bytes) {
    let mut json = status.to_json();
    if encoding != Encoding::Json {
        let value: Value = serde_json::from_slice(&json).expect("a Status is JSON");
        if let Ok(body) = encode(&value, encoding) {
            return (encoding.content_type(), body);
        }
    }
    json.push(b'\n');
    (Encoding::Json.content_type(), json.into())
}

/// A response with the headers that all answers have.
pub fn response(code: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// A response of one line of text.
pub fn plain(code: StatusCode, line: &str) -> Response<Body> {
    let mut response = response(code, "text/plain; charset=utf-8", Body::from(format!("{line}\n")));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The response to HEAD: that to GET without its body. A streamed body is not encoded.
pub fn without_body(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    if let Some(length) = http_body::Body::size_hint(&body).exact() {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(parts, Body::empty())
}

fn list_meta(listed: &Listed) -> Value {
    let mut metadata = json!({"resourceVersion": listed.revision.to_string()});
    if !listed.continue_token.is_empty() {
        metadata["continue"] = json!(listed.continue_token);
        if let Some(remaining) = listed.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
    }
    metadata
}

fn created(created: bool) -> StatusCode {
    if created { StatusCode::CREATED } else { StatusCode::OK }
}

/// The value of a `Warning` header: `299 - "text"`, with quotes and backslashes escaped.
pub(super) fn warning_header(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\r', '\n'], " ");
    format!("299 - \"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_beyond_the_queue_are_refused_in_plain_text() {
        let refused = refusal(&Status::too_many_requests(TOO_MANY, 1));
        assert_eq!(refused.status().as_u16(), 429);
        assert_eq!(refused.headers()[RETRY_AFTER], "1");
        assert_eq!(refused.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
        let other = refusal(&Status::too_many_requests("Cannot evict pod", 10));
        assert_eq!(other.headers()[CONTENT_TYPE], "application/json");
    }
}
