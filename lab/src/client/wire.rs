//! Heads of Kubernetes' protobuf messages: of an object, a list or a watch event only the members that the lab reads are decoded. Pure.

use super::view::MetadataHead;
use bytes::Bytes;
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};

/// The first bytes of every message.
const MAGIC: [u8; 4] = *b"k8s\0";

/// Bytes of the length before each event of a watch.
const LENGTH: usize = size_of::<u32>();

/// How the objects of an answer are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WireForm {
    /// JSON; the events of a watch are lines.
    #[default]
    Json,
    /// Kubernetes' protobuf; the events of a watch have their length before them.
    Protobuf,
}

/// `runtime.Unknown`, in which every message is.
#[derive(Clone, PartialEq, Eq, Message)]
struct Envelope {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct TypeMeta {
    #[prost(string, tag = "2")]
    kind: String,
}

/// An object: its metadata are the first member of each kind.
#[derive(Clone, PartialEq, Eq, Message)]
struct ObjectHead {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct ObjectMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
}

/// A Status: its metadata are those of a list.
#[derive(Clone, PartialEq, Eq, Message)]
struct StatusHead {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct ListMeta {
    #[prost(string, tag = "2")]
    resource_version: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct WatchEvent {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(message, optional, tag = "2")]
    object: Option<RawExtension>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

/// The metadata of an enveloped object. A Status has a revision at most, as after a deletion. `None`: it cannot be read.
fn metadata(message: &[u8]) -> Option<MetadataHead> {
    let envelope = Envelope::decode(message.strip_prefix(&MAGIC)?).ok()?;
    if envelope.raw.is_empty() {
        return None;
    }
    if envelope.type_meta.is_some_and(|meta| meta.kind == "Status") {
        let ListMeta { resource_version } =
            StatusHead::decode(envelope.raw).ok()?.metadata.unwrap_or_default();
        return Some(MetadataHead { resource_version, ..MetadataHead::default() });
    }
    let ObjectMeta { name, namespace, uid, resource_version } =
        ObjectHead::decode(envelope.raw).ok()?.metadata.unwrap_or_default();
    Some(MetadataHead { namespace, name, uid, resource_version })
}

/// The revision of an object or a Status, or 0 if it has none; `None` if it cannot be read.
pub(crate) fn revision_of(message: &[u8]) -> Option<i64> {
    match metadata(message)?.resource_version.as_str() {
        "" => Some(0),
        revision => revision.parse().ok(),
    }
}

/// The revision of a list whose message begins with these bytes; `None` if it is not among them.
pub(crate) fn list_revision(head: &[u8]) -> Option<i64> {
    let mut rest = head.strip_prefix(&MAGIC)?;
    let length = enter(&mut rest, 1)?;
    rest = rest.get(length..)?;
    // The list's message goes on behind these bytes; its metadata come before its items.
    enter(&mut rest, 2)?;
    let length = enter(&mut rest, 1)?;
    ListMeta::decode(rest.get(..length)?).ok()?.resource_version.parse().ok()
}

/// Reads the key of a member with a length, and returns the length.
fn enter(rest: &mut &[u8], number: u32) -> Option<usize> {
    let (found, wire) = decode_key(rest).ok()?;
    let is_it = found == number && wire == WireType::LengthDelimited;
    usize::try_from(decode_varint(rest).ok()?).ok().filter(|_| is_it)
}

/// The type of an event, and the metadata of its object; `None`: it cannot be read.
pub(super) fn event(frame: &[u8]) -> Option<(String, MetadataHead)> {
    let WatchEvent { kind, object } = WatchEvent::decode(frame).ok()?;
    let metadata = metadata(&object.unwrap_or_default().raw)?;
    Some((kind, metadata))
}

/// The first event in bytes of a watch, without the length before it, and how many bytes both are; `None`: its end has not come.
pub(super) fn frame(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    Some((rest.get(..length)?, LENGTH.checked_add(length)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::wire::protobuf::{ENVELOPE_TAIL, encode, envelope_head, item_head, list_meta};
    use serde_json::json;

    #[test]
    fn revisions_of_objects_and_lists_are_found_in_protobuf() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"resourceVersion": "9"},
            "metadata": {"name": "a", "namespace": "b", "uid": "u", "labels": {"resourceVersion": "8"}, "resourceVersion": "7"}});
        let message = encode(&object).unwrap();
        assert_eq!(revision_of(&message), Some(7));
        let found = metadata(&message).unwrap();
        assert_eq!((found.namespace.as_str(), found.name.as_str(), found.uid.as_str()), ("b", "a", "u"));
        let status =
            encode(&json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "code": 200})).unwrap();
        assert_eq!(revision_of(&status), Some(0));
        let deleted = json!({"apiVersion": "v1", "kind": "Status", "metadata": {"resourceVersion": "9"}, "status": "Success"});
        assert_eq!(revision_of(&encode(&deleted).unwrap()), Some(9), "of a deletion");
        for cut in 0..message.len() - ENVELOPE_TAIL.len() {
            assert_eq!(revision_of(&message[..cut]), None, "an object that ends after {cut} bytes");
        }
        assert_eq!(revision_of(br#"{"metadata":{"resourceVersion":"7"}}"#), None, "JSON");
        let metadata = list_meta("42", &"c".repeat(300), Some(3));
        let mut list = envelope_head("v1", "ConfigMapList", metadata.len() + 5_000);
        list.extend_from_slice(&metadata);
        for cut in 0..list.len() {
            assert_eq!(list_revision(&list[..cut]), None, "a list of which {cut} bytes have come");
        }
        assert_eq!(list_revision(&list), Some(42));
        list.extend_from_slice(&item_head(4_990));
        assert_eq!(list_revision(&list), Some(42));
    }
}
