//! Answers → HTTP responses. Bytes of stored objects are sent as they are held; only YAML, tables, metadata-only and indented
//! forms are made anew.

use super::content::{Accepted, Encoding, Transform};
use super::table::{Include, Tables, partial};
use super::watch::{self, WatchForm};
use crate::cache::Entry;
use crate::pipeline::{Answer, Answered, in_version};
use crate::registry::Listed;
use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, VARY, WARNING};
use http::{HeaderValue, Response, StatusCode};
use kstore_api::kind::Resource;
use kstore_api::status::Status;
use kstore_nondet::Nondet;
use serde_json::{Value, json};
use std::io::Write as _;

/// Answers larger than this are compressed for clients that take it (Kubernetes' threshold).
const GZIP_FROM_BYTES: usize = 128 * 1024;

/// How one request wants to be answered.
pub struct Reply {
    /// The kind, in the caller's version.
    pub resource: &'static Resource,
    /// The agreed form.
    pub accepted: Accepted,
    /// What table rows carry.
    pub include: Include,
    /// Whether the client takes gzip.
    pub gzip: bool,
    /// What a watch must know beyond that.
    pub watch: watch::Ending,
    /// For ages in tables and the ends of watches.
    pub nondet: Nondet,
}

impl Reply {
    /// The response to an answer or a refusal.
    pub fn response(&self, answered: Result<Answered, Status>) -> Response<Body> {
        match answered {
            Ok(answered) => {
                let mut response = self.answer(answered.answer);
                for warning in &answered.warnings {
                    if let Ok(value) = HeaderValue::from_str(&warning_header(warning)) {
                        response.headers_mut().append(WARNING, value);
                    }
                }
                response
            }
            Err(status) => refusal(&status),
        }
    }

    fn answer(&self, answer: Answer) -> Response<Body> {
        match answer {
            Answer::Object(object) => self.object(&object.entry, created(object.created)),
            Answer::Value { value, created: new } => self.unstored(&value, created(new)),
            Answer::Status { status, .. } => status_response(&status),
            Answer::List(listed) => self.list(&listed),
            Answer::Watch(watch) => self.watch(*watch),
        }
    }

    fn object(&self, entry: &Entry, code: StatusCode) -> Response<Body> {
        let same_version = std::ptr::eq(entry.resource, self.resource);
        match &self.accepted.transform {
            Transform::None if same_version && self.accepted.encoding == Encoding::Json => {
                let mut body = BytesMut::with_capacity(entry.json.len() + 1);
                body.put_slice(&entry.json);
                body.put_u8(b'\n');
                self.send(code, body.freeze())
            }
            Transform::None => self.value(&in_version(self.resource, entry.parse()), code),
            Transform::Table(version) => {
                let metadata = json!({"resourceVersion": entry.revision.to_string()});
                let now = self.nondet.clock.now();
                self.value(&self.tables(version).of(std::iter::once(entry), metadata, now), code)
            }
            Transform::Partial(version) => self.value(&partial(&entry.parse(), version), code),
        }
    }

    /// An object that is no stored entry. Of these only a Scale has columns.
    fn unstored(&self, value: &Value, code: StatusCode) -> Response<Body> {
        match &self.accepted.transform {
            Transform::Table(version) if value["kind"] == "Scale" => {
                let now = self.nondet.clock.now();
                self.value(&self.tables(version).scale(value, now), code)
            }
            Transform::None | Transform::Table(_) | Transform::Partial(_) => self.value(value, code),
        }
    }

    fn list(&self, listed: &Listed) -> Response<Body> {
        match (&self.accepted.transform, self.accepted.encoding) {
            (Transform::None, Encoding::Json) => self.send(StatusCode::OK, self.list_bytes(listed)),
            (Transform::None, _) => {
                let value: Value =
                    serde_json::from_slice(&self.list_bytes(listed)).expect("a list of objects is JSON");
                self.value(&value, StatusCode::OK)
            }
            (Transform::Table(version), _) => {
                let entries = listed.items.iter().map(AsRef::as_ref);
                let now = self.nondet.clock.now();
                self.value(&self.tables(version).of(entries, list_meta(listed), now), StatusCode::OK)
            }
            (Transform::Partial(version), _) => {
                let items: Vec<Value> =
                    listed.items.iter().map(|entry| partial(&entry.parse(), version)).collect();
                let api_version = format!("meta.k8s.io/{version}");
                let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": api_version,
                    "metadata": list_meta(listed), "items": items});
                self.value(&list, StatusCode::OK)
            }
        }
    }

    /// The list as JSON: shared bytes, one after the other.
    fn list_bytes(&self, listed: &Listed) -> Bytes {
        let size: usize = listed.items.iter().map(|entry| entry.json.len() + 1).sum();
        let mut body = BytesMut::with_capacity(size + 256);
        let (kind, api_version) = (self.resource.kind, self.resource.api_version());
        let head = format!(
            "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{api_version}\",\"metadata\":{},\"items\":[",
            list_meta(listed)
        );
        body.put_slice(head.as_bytes());
        for (at, entry) in listed.items.iter().enumerate() {
            if at > 0 {
                body.put_u8(b',');
            }
            if std::ptr::eq(entry.resource, self.resource) {
                body.put_u8(b'{');
                body.put_slice(entry.item());
            } else {
                let mut value = in_version(self.resource, entry.parse());
                value.as_object_mut().map(|o| (o.remove("kind"), o.remove("apiVersion")));
                body.put_slice(value.to_string().as_bytes());
            }
        }
        body.put_slice(b"]}\n");
        body.freeze()
    }

    fn watch(&self, watch: crate::cache::Watch) -> Response<Body> {
        let form = match &self.accepted.transform {
            Transform::None => WatchForm::Objects,
            Transform::Table(version) => WatchForm::Tables(self.tables(version)),
            Transform::Partial(version) => WatchForm::Partial(version.clone()),
        };
        let body = watch::body(watch, self.resource, form, self.watch.clone(), self.nondet.clone());
        response(StatusCode::OK, "application/json", body)
    }

    fn tables(&self, version: &str) -> Tables {
        Tables { resource: self.resource, version: version.to_owned(), include: self.include }
    }

    /// Any object in the agreed encoding.
    fn value(&self, value: &Value, code: StatusCode) -> Response<Body> {
        self.send(code, encode(value, self.accepted.encoding))
    }

    fn send(&self, code: StatusCode, body: Bytes) -> Response<Body> {
        let content_type = self.accepted.encoding.content_type();
        if !self.gzip || body.len() < GZIP_FROM_BYTES {
            return response(code, content_type, Body::from(body));
        }
        let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::fast());
        encoder.write_all(&body).expect("compressing into memory does not fail");
        let packed = encoder.finish().expect("compressing into memory does not fail");
        let mut response = response(code, content_type, Body::from(packed));
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response.headers_mut().insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        response
    }
}

/// A value in an encoding, with the final newline that people expect.
pub fn encode(value: &Value, encoding: Encoding) -> Bytes {
    let mut text = match encoding {
        Encoding::Json => value.to_string(),
        Encoding::PrettyJson => serde_json::to_string_pretty(value).expect("a value is JSON"),
        Encoding::Yaml => return serde_yaml_ng::to_string(value).expect("a value is YAML").into(),
    };
    text.push('\n');
    text.into()
}

/// A refusal: the Status as JSON under its code.
pub fn refusal(status: &Status) -> Response<Body> {
    let mut response = status_response(status);
    if let Some(seconds) = status.retry_after_seconds() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn status_response(status: &Status) -> Response<Body> {
    let mut body = status.to_json();
    body.push(b'\n');
    // A Status about a success may leave its code out.
    let code = match status.code {
        0 => StatusCode::OK,
        code => StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
    };
    response(code, "application/json", Body::from(body))
}

/// A response with the headers that every answer carries.
pub fn response(code: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
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

/// `299 - "text"`, with quotes and backslashes escaped.
fn warning_header(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\r', '\n'], " ");
    format!("299 - \"{text}\"")
}
