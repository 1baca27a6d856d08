//! The forms in which a watch sends an object, and the bytes of one event in each. Rows of tables are made where they are asked
//! for; here is only what tells one from another ([`Look`]).

use super::change::Seen;
use super::entry::Entry;
use bytes::{BufMut, Bytes, BytesMut};
use kstore_api::convert;
use kstore_api::kind::Resource;
use kstore_api::wire::protobuf;
use serde_json::Value;

/// A form that all watches who ask for it share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The object as a line of JSON.
    Json,
    /// The object as a protobuf frame.
    Protobuf,
    /// Its metadata as a line of JSON.
    Partial(MetaVersion),
    /// Its metadata as a protobuf frame.
    PartialProtobuf(MetaVersion),
}

/// The version of `meta.k8s.io` that a PartialObjectMetadata or a Table is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVersion {
    /// `v1`.
    V1,
    /// `v1beta1`.
    V1Beta1,
}

impl MetaVersion {
    /// From its name.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    /// The `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// A way to look at an event that few ask for, beside the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The object in another version than the stored one.
    Turned(Form),
    /// As a row of a table, without the definitions of the columns.
    Row {
        /// The version of the table.
        version: MetaVersion,
        /// What the row carries besides its cells.
        carries: &'static str,
        /// When it is looked at, in seconds: cells tell ages.
        second: i64,
    },
}

impl Look {
    /// Whether it is the same but for the time.
    pub(super) fn replaces(self, other: Self) -> bool {
        match (self, other) {
            (Self::Row { version, carries, .. }, Self::Row { version: v, carries: c, .. }) => {
                (version, carries) == (v, c)
            }
            (Self::Turned(form), Self::Turned(other)) => form == other,
            (Self::Turned(_), Self::Row { .. }) | (Self::Row { .. }, Self::Turned(_)) => false,
        }
    }
}

impl Form {
    /// Whether it is the same in all versions of a kind: metadata is.
    pub fn is_of_all_versions(self) -> bool {
        match self {
            Self::Json | Self::Protobuf => false,
            Self::Partial(_) | Self::PartialProtobuf(_) => true,
        }
    }

    /// How many forms there are besides JSON.
    pub(super) const OTHERS: usize = 5;

    /// A place for each form but JSON, which has its own.
    pub(super) fn place(self) -> Option<usize> {
        match self {
            Self::Json => None,
            Self::Protobuf => Some(0),
            Self::Partial(version) => Some(1 + version as usize),
            Self::PartialProtobuf(version) => Some(3 + version as usize),
        }
    }
}

/// One event. `None` if the object has no such form.
pub fn frame(seen: Seen, entry: &Entry, form: Form) -> Option<Bytes> {
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

/// One event with its object in another version than the stored one. `None` if that has no such form.
pub fn turned(seen: Seen, entry: &Entry, resource: &Resource, form: Form) -> Option<Bytes> {
    let mut value = entry.parse();
    convert::from_storage(resource, &mut value);
    event_of(seen.as_str(), &value, form)
}

/// An event with an object that is at hand as a value, and is what the form shows.
pub fn event_of(kind: &str, object: &Value, form: Form) -> Option<Bytes> {
    match form {
        Form::Json | Form::Partial(_) => Some(watch_line(kind, object.to_string().as_bytes())),
        Form::Protobuf | Form::PartialProtobuf(_) => {
            let object = protobuf::encode(object).ok()?;
            Some(protobuf::watch_frame(kind, &object).into())
        }
    }
}

/// The object as protobuf, with its envelope. `None` if the kind has no such form.
pub fn enveloped(entry: &Entry) -> Option<Vec<u8>> {
    Some(envelope(&entry.resource.api_version(), entry.resource.kind, &entry.message()?))
}

/// A message in its envelope.
pub fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = protobuf::envelope_head(api_version, kind, message.len());
    out.extend_from_slice(message);
    out.extend_from_slice(&protobuf::ENVELOPE_TAIL);
    out
}

/// Appends the object's metadata as a PartialObjectMetadata in JSON. Nothing is parsed.
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
