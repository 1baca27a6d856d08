//! The protobuf wire format of Kubernetes objects: `k8s\0`, then an `Unknown` message which names apiVersion and kind
//! and holds the object's own message. Driven by the field table; there is no generated message code.
//!
//! It turns bytes into the JSON that the same object has, and back. It neither defaults nor validates.

mod decode;
mod encode;
mod reader;

#[cfg(test)]
mod tests;

pub use decode::decode;
pub use encode::{
    ENVELOPE_TAIL, bare, encode, envelope_head, has_message, item_head, list_meta, watch_frame,
};

use crate::schema::decode::DecodeError;

/// What every protobuf body starts with.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// apiVersion and kind, as the envelope states them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeMeta {
    /// E.g. `apps/v1`.
    pub api_version: String,
    /// E.g. `Deployment`.
    pub kind: String,
}

/// The bytes are not an object we can read, or the object cannot be written as protobuf.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The magic prefix is missing.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NotEnveloped,
    /// Protobuf has no message for this kind; custom resources travel as JSON.
    #[error("no kind \"{kind}\" is registered for version \"{api_version}\" in scheme")]
    UnknownKind {
        /// The apiVersion asked for.
        api_version: String,
        /// The kind asked for.
        kind: String,
    },
    /// The envelope announces another encoding of the object.
    #[error("unsupported content {0:?} inside a protobuf message")]
    Content(String),
    /// The bytes end inside a field.
    #[error("unexpected EOF")]
    Truncated,
    /// A number longer than ten bytes.
    #[error("proto: integer overflow")]
    Overflow,
    /// A field has another wire type than its type asks for, or one that proto2 messages of Kubernetes never use.
    #[error("proto: wrong wireType = {wire} for field number {number}")]
    WireType {
        /// Found wire type.
        wire: u8,
        /// Field number.
        number: u32,
    },
    /// A field number out of range.
    #[error("proto: illegal tag 0")]
    Tag,
    /// A string is not UTF-8.
    #[error("proto: string field contains invalid UTF-8")]
    Utf8,
    /// An embedded JSON value cannot be read.
    #[error("embedded JSON: {0}")]
    Json(String),
    /// More bytes, values or nesting than a request may have.
    #[error("protobuf message is too large")]
    TooLarge,
    /// A member has a JSON type that its protobuf field cannot carry.
    #[error("cannot encode field {field} of {owner}")]
    Shape {
        /// The struct.
        owner: &'static str,
        /// Its member.
        field: &'static str,
    },
    /// A scalar's text is malformed.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}
