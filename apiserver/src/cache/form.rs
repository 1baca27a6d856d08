//! The forms in which a watch sends an object that is stored in the version asked for, and the bytes of one event in each. Tables
//! and other versions are made per watch, where they are asked for.

use super::change::Seen;
use super::entry::Entry;
use bytes::{BufMut, Bytes, BytesMut};
use kstore_api::wire::protobuf;

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

impl Form {
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
