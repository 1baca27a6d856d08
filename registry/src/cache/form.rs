//! The forms in which a watch sends an object, and the encoding of an event in each. Table rows are made by
//! their callers; this file only identifies them ([`RareForm`]).

use super::change::EventType;
use crate::entry::Entry;
use bytes::{BufMut, Bytes, BytesMut};
use kstore_api::convert;
use kstore_api::resource::Resource;
use kstore_api::wire::protobuf;
use serde_json::Value;

/// A form in which many watchers receive an event, so that it is encoded once and shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The object as a line of JSON.
    Json,
    /// The object as a protobuf frame.
    Protobuf,
    /// The metadata as a line of JSON.
    Partial(MetaVersion),
    /// The metadata as a protobuf frame.
    PartialProtobuf(MetaVersion),
}

/// The version of `meta.k8s.io` of a PartialObjectMetadata or a Table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVersion {
    /// `v1`.
    V1,
    /// `v1beta1`.
    V1Beta1,
}

impl MetaVersion {
    /// Parses the name of a version.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    /// The `apiVersion` of this version.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// A form of an event that few watchers request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RareForm {
    /// The object in another version than the stored one.
    Converted(Form),
    /// A row of a table, without column definitions.
    Row {
        /// The version of the table.
        version: MetaVersion,
        /// The object that the row includes besides its cells (`includeObject`).
        carries: &'static str,
        /// The time in seconds: cells show ages.
        second: i64,
    },
}

impl RareForm {
    /// Whether both forms are the same except for the time, so that one replaces the other.
    pub(super) fn replaces(self, other: Self) -> bool {
        match (self, other) {
            (Self::Row { version, carries, .. }, Self::Row { version: v, carries: c, .. }) => {
                (version, carries) == (v, c)
            }
            (Self::Converted(form), Self::Converted(other)) => form == other,
            (Self::Converted(_), Self::Row { .. }) | (Self::Row { .. }, Self::Converted(_)) => false,
        }
    }
}

impl Form {
    /// Whether the form is the same in all versions of a kind, as metadata is.
    pub fn is_of_all_versions(self) -> bool {
        match self {
            Self::Json | Self::Protobuf => false,
            Self::Partial(_) | Self::PartialProtobuf(_) => true,
        }
    }

    /// The number of forms besides JSON.
    pub(super) const OTHERS: usize = 5;

    /// The index of each form but JSON, which is kept separately.
    pub(super) fn index(self) -> Option<usize> {
        match self {
            Self::Json => None,
            Self::Protobuf => Some(0),
            Self::Partial(version) => Some(1 + version as usize),
            Self::PartialProtobuf(version) => Some(3 + version as usize),
        }
    }
}

/// Encodes an event. `None` if the kind has no such form.
pub fn frame(seen: EventType, entry: &Entry, form: Form) -> Option<Bytes> {
    Some(match form {
        Form::Json => watch_line(seen.as_str(), &entry.json()),
        Form::Protobuf => protobuf::watch_frame(seen.as_str(), &enveloped(entry)?).into(),
        Form::Partial(version) => {
            let mut partial = BytesMut::new();
            put_partial(entry, version, &mut partial);
            watch_line(seen.as_str(), &partial)
        }
        Form::PartialProtobuf(version) => {
            let message = partial_message(entry)?;
            let partial = envelope(version.api_version(), "PartialObjectMetadata", &message);
            protobuf::watch_frame(seen.as_str(), &partial).into()
        }
    })
}

/// Encodes an event with its object in another version than the stored one. `None` if the kind has no such
/// form.
pub fn converted_event(seen: EventType, entry: &Entry, resource: &Resource, form: Form) -> Option<Bytes> {
    let mut value = entry.parse();
    convert::from_storage(resource, &mut value);
    event_of(seen.as_str(), &value, form)
}

/// Encodes an event with an object that is already the value to show in this form.
pub fn event_of(kind: &str, object: &Value, form: Form) -> Option<Bytes> {
    match form {
        Form::Json | Form::Partial(_) => Some(watch_line(kind, object.to_string().as_bytes())),
        Form::Protobuf | Form::PartialProtobuf(_) => {
            let object = protobuf::encode(object).ok()?;
            Some(protobuf::watch_frame(kind, &object).into())
        }
    }
}

/// The object as protobuf in its envelope. `None` if the kind has no such form.
pub fn enveloped(entry: &Entry) -> Option<Vec<u8>> {
    Some(envelope(&entry.resource.api_version(), entry.resource.kind, &entry.message()?))
}

/// Wraps a message in its envelope.
pub fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = protobuf::envelope_head(api_version, kind, message.len());
    out.extend_from_slice(message);
    out.extend_from_slice(&protobuf::ENVELOPE_TAIL);
    out
}

/// Appends the object's metadata as a PartialObjectMetadata in JSON, without parsing.
pub fn put_partial(entry: &Entry, version: MetaVersion, out: &mut BytesMut) {
    out.put_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"");
    out.put_slice(version.api_version().as_bytes());
    out.put_slice(b"\",\"metadata\":");
    entry.put_metadata(out);
    out.put_u8(b'}');
}

/// The object's metadata as the message of a PartialObjectMetadata.
pub fn partial_message(entry: &Entry) -> Option<Vec<u8>> {
    let partial = serde_json::json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": entry.parse_metadata()});
    protobuf::bare(&partial).ok()
}

/// `{"type":…,"object":…}` and a newline.
pub fn watch_line(kind: &str, json: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(json.len() + kind.len() + 24);
    line.put_slice(b"{\"type\":\"");
    line.put_slice(kind.as_bytes());
    line.put_slice(b"\",\"object\":");
    line.put_slice(json);
    line.put_slice(b"}\n");
    line.freeze()
}
