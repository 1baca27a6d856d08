//! Protobuf wire format of Kubernetes objects: `k8s\0`, then an `Unknown` message with apiVersion, kind and
//! the object's own message. The field table drives it; no message code is generated.
//!
//! It converts between bytes and the JSON of the same object, without defaults and validation.

mod decode;
mod encode;
mod reader;

#[cfg(test)]
mod tests;

use crate::schema::decode::DecodeError;
pub use decode::{decode, decode_as};
pub use encode::{ENVELOPE_TAIL, bare, encode, envelope_head, item_head, list_meta, watch_frame};

/// The first bytes of every protobuf body.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// Media type of protobuf bodies.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The apiVersion and kind of an envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeMeta {
    /// E.g. `apps/v1`.
    pub api_version: String,
    /// E.g. `Deployment`.
    pub kind: String,
}

/// Error of decoding or encoding protobuf.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The magic prefix is missing.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NotEnveloped,
    /// Protobuf has no message for this kind; custom resources need JSON.
    #[error("no kind \"{kind}\" is registered for version \"{api_version}\" in scheme")]
    UnknownKind {
        /// Requested apiVersion.
        api_version: String,
        /// Requested kind.
        kind: String,
    },
    /// The envelope announces another encoding of the object.
    #[error("unsupported content {0:?} inside a protobuf message")]
    Content(String),
    /// The bytes end inside a field.
    #[error("unexpected EOF")]
    Truncated,
    /// A varint is longer than ten bytes.
    #[error("proto: integer overflow")]
    Overflow,
    /// A field has a wire type that does not fit its type or that Kubernetes never uses.
    #[error("proto: wrong wireType = {wire} for field number {number}")]
    WireType {
        /// Wire type that was found.
        wire: u8,
        /// Field number.
        number: u32,
    },
    /// A field number is out of range.
    #[error("proto: illegal tag 0")]
    Tag,
    /// A string is not UTF-8.
    #[error("proto: string field contains invalid UTF-8")]
    Utf8,
    /// An embedded JSON value is malformed.
    #[error("embedded JSON: {0}")]
    Json(String),
    /// The body exceeds the bound on bytes, values or nesting.
    #[error("protobuf message is too large")]
    TooLarge,
    /// A member has a JSON type that its protobuf field cannot carry.
    #[error("cannot encode field {field} of {owner}")]
    Shape {
        /// Name of the struct.
        owner: &'static str,
        /// Name of its member.
        field: &'static str,
    },
    /// The text of a scalar is malformed.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}
