//! One object in the cache: the stored bytes, shared with the store, and the few strings that selectors
//! compare. The object is not parsed; callers that need more parse the bytes.

mod message;
mod packed_strings;
mod partial_decode;
mod uncommitted;
mod views;

use bytes::{BufMut, Bytes, BytesMut};
use kstore_api::resource::Resource;
use kstore_api::selector::{field, label};
use kstore_api::{meta, object, stored};
use kstore_storage::encryption::ENCRYPTED;
use kstore_storage::storage::Raw;
use packed_strings::PackedStrings;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
pub use uncommitted::UncommittedEntry;
pub(crate) use views::{ViewKey, Views};

/// An object at a revision. Immutable; shared by cache, lists and watches.
#[derive(Debug)]
pub struct Entry {
    /// The table row of the object's kind, in the stored version.
    pub resource: &'static Resource,
    /// `metadata.resourceVersion`.
    pub revision: i64,
    /// The revision at which the object was created.
    pub created: i64,
    /// The revision that wrote `stored`. Equals `revision`, except for the last state of a deleted object.
    written: i64,
    /// The stored bytes, without a resourceVersion.
    stored: Bytes,
    /// Offset of the metadata in `stored`.
    metadata: usize,
    /// Whether the object waits for initializers.
    is_uninitialized: bool,
    strings: PackedStrings,
    /// The object as a protobuf message, if it was requested and there was space to keep it.
    message: OnceLock<message::CachedMessage>,
    /// The parsed object, if it is of a kind that many writes read.
    value: OnceLock<Arc<Value>>,
    /// For custom kinds: the object in other versions and by other schemas.
    views: Views,
}

// Indexes of the strings in `strings`; the selectable fields and then the labels follow.
const KEY: usize = 0;
const NAMESPACE: usize = 1;
const NAME: usize = 2;
const UID: usize = 3;
const FIELDS: usize = 4;

/// The members of the metadata that a deletion changes.
const DELETION_MEMBERS: [&str; 4] =
    ["deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generation"];

/// The beginning of the metadata in an item.
const METADATA: &[u8] = b"\"metadata\":{";

/// Why stored bytes are not a valid object.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// The bytes are not an object.
    #[error("the stored value of {key} is not a valid object: {reason}")]
    Invalid {
        /// The storage key.
        key: String,
        /// The reason.
        reason: String,
    },
    /// The value cannot be decrypted: the reason, in kube-apiserver's words.
    #[error("{0}")]
    Undecrypted(Arc<str>),
}

impl Entry {
    /// An entry for stored bytes. Reads only the fields that selectors compare.
    pub fn from_raw(resource: &'static Resource, raw: &Raw) -> Result<Self, Malformed> {
        if let Some(reason) = &raw.undecrypted {
            return Err(Malformed::Undecrypted(reason.clone()));
        }
        let malformed = |reason: String| match raw.value.starts_with(ENCRYPTED) {
            // Nothing decrypts this resource: kube-apiserver's provider `identity` has this text.
            true => Malformed::Undecrypted("identity transformer tried to read encrypted data".into()),
            false => Malformed::Invalid { key: String::from_utf8_lossy(&raw.key).into_owned(), reason },
        };
        let key = std::str::from_utf8(&raw.key).map_err(|e| malformed(e.to_string()))?;
        let stored = stored::read(resource, &raw.value).map_err(|e| malformed(e.to_string()))?;
        let stored = stored.map_or_else(|| raw.value.clone(), Bytes::from);
        let value = partial_decode::read(&stored, resource).map_err(|e| malformed(e.to_string()))?;
        Self::new(resource, key, &value, stored, raw.revision, raw.created)
    }

    /// An entry for an object that was just written and the bytes that were stored for it.
    pub fn new(
        resource: &'static Resource,
        key: &str,
        value: &Value,
        stored: Bytes,
        revision: i64,
        created: i64,
    ) -> Result<Self, Malformed> {
        Ok(UncommittedEntry::new(resource, key, value, stored)?.at(revision, created))
    }

    /// The entry as a last state, with the revision of its deletion: the object of a DELETED event.
    pub fn deleted_at(&self, revision: i64) -> Self {
        Self {
            revision,
            stored: self.stored.clone(),
            strings: self.strings.clone(),
            message: OnceLock::new(),
            value: OnceLock::new(),
            views: Views::default(),
            ..*self
        }
    }

    /// The entry for another row of its kind, whose selectable fields may differ.
    pub(super) fn for_row(&self, resource: &'static Resource) -> Self {
        let strings = strings(resource, self.key(), &self.parse());
        Self {
            resource,
            stored: self.stored.clone(),
            strings,
            message: OnceLock::new(),
            value: OnceLock::new(),
            views: Views::default(),
            ..*self
        }
    }

    /// Whether the object waits for initializers, so that lists and watches hide it.
    pub fn is_uninitialized(&self) -> bool {
        self.is_uninitialized
    }

    /// The revision that wrote the object's bytes.
    pub fn written(&self) -> i64 {
        self.written
    }

    /// The object in other versions of its custom kind.
    pub(crate) fn views(&self) -> &Views {
        &self.views
    }

    /// The storage key.
    pub fn key(&self) -> &str {
        self.strings.get(KEY)
    }

    /// `metadata.namespace`, or empty.
    pub fn namespace(&self) -> &str {
        self.strings.get(NAMESPACE)
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.strings.get(NAME)
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.strings.get(UID)
    }

    /// The value of a selectable field; empty if the kind cannot be selected by it.
    pub fn field(&self, label: &str) -> &str {
        match label {
            field::NAME => self.name(),
            field::NAMESPACE => self.namespace(),
            _ => match field::position(self.resource, label) {
                Some(at) => self.strings.get(FIELDS + at),
                None => "",
            },
        }
    }

    /// The object's labels.
    pub fn labels(&self) -> LabelsOf<'_> {
        LabelsOf { strings: &self.strings, first: FIELDS + field::own_labels(self.resource).len() }
    }

    /// Parses the object.
    pub fn parse(&self) -> Value {
        let read = serde_json::from_slice(&self.stored);
        let mut value: Value = read.unwrap_or_else(|error| self.placeholder(&error));
        value["metadata"]["resourceVersion"] = self.revision.to_string().into();
        value
    }

    /// Parses only what decides about a deletion, which is much faster: what `plan_delete` reads, and what
    /// admission plugins read of an object that is deleted.
    pub(crate) fn parse_for_deletion(&self) -> Value {
        let read = partial_decode::read_for_deletion(&self.stored).ok();
        let mut value = read.filter(|value| value["metadata"].is_object()).unwrap_or_else(|| self.parse());
        value["metadata"]["resourceVersion"] = self.revision.to_string().into();
        value
    }

    /// The stored bytes with the deletion members of `marked`, which was made from [`Entry::parse_for_deletion`].
    /// All other members stay as stored.
    ///
    /// # Errors
    /// The stored metadata is not a JSON object.
    pub(crate) fn stored_as_marked(&self, marked: &Value) -> Result<Bytes, serde_json::Error> {
        let bytes = object::metadata_of(self.item()).expect("an entry was made from stored bytes");
        let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(bytes)?;
        for name in DELETION_MEMBERS {
            match marked["metadata"].get(name) {
                Some(value) => {
                    members.insert(name.to_owned(), serde_json::value::to_raw_value(value)?);
                }
                None => drop(members.remove(name)),
            }
        }
        let rest = &self.item()[METADATA.len() - 1 + bytes.len()..];
        let mut out = Vec::with_capacity(self.stored.len() + 128);
        out.extend_from_slice(&self.stored[..self.metadata + METADATA.len() - 1]);
        serde_json::to_writer(&mut out, &members)?;
        out.extend_from_slice(rest);
        Ok(out.into())
    }

    /// The entry with the bytes of [`Entry::stored_as_marked`]. Labels and selectable fields are the same.
    pub(crate) fn marked(&self, stored: Bytes) -> UncommittedEntry {
        UncommittedEntry { stored, ..self.uncommitted() }
    }

    /// Whether both entries have the same strings in memory, so that one was made of the other.
    #[cfg(test)]
    pub(crate) fn shares_strings_with(&self, other: &Self) -> bool {
        self.strings.is_same(&other.strings)
    }

    /// The entry without its revisions.
    pub(crate) fn uncommitted(&self) -> UncommittedEntry {
        UncommittedEntry {
            resource: self.resource,
            stored: self.stored.clone(),
            metadata: self.metadata,
            is_uninitialized: self.is_uninitialized,
            strings: self.strings.clone(),
        }
    }

    /// Parses the object without `metadata.managedFields`, which most readers do not need.
    pub fn parse_without_managed_fields(&self) -> Value {
        let Ok(mut value) = partial_decode::without_managed_fields(&self.stored) else { return self.parse() };
        value["metadata"]["resourceVersion"] = self.revision.to_string().into();
        value
    }

    /// The parsed object, shared and read-only. Namespaces and PriorityClasses are parsed once and kept: every write into a namespace
    /// reads it, every new pod reads all PriorityClasses, and there are few of both.
    pub fn parsed(&self) -> Arc<Value> {
        let parse = || Arc::new(self.parse());
        let is_kept =
            self.resource.is("", "namespaces") || self.resource.is("scheduling.k8s.io", "priorityclasses");
        match is_kept {
            true => self.value.get_or_init(parse).clone(),
            false => parse(),
        }
    }

    /// Parses only the members that `T` names, which is much faster. The metadata lacks the resourceVersion.
    /// `None` if a required member is missing.
    pub fn parse_parts<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.stored).ok()
    }

    /// Parses only the metadata, which is much faster.
    pub fn parse_metadata(&self) -> Value {
        let bytes = object::metadata_of(self.item()).expect("an entry was made from stored bytes");
        let read = serde_json::from_slice(bytes);
        let mut metadata: Value = read.unwrap_or_else(|error| self.placeholder(&error)["metadata"].take());
        metadata["resourceVersion"] = self.revision.to_string().into();
        metadata
    }

    /// Whether the stored bytes have this text anywhere. No parsing.
    pub fn mentions(&self, text: &str) -> bool {
        memchr::memmem::find(&self.stored, text.as_bytes()).is_some()
    }

    /// Whether `stored` equals the entry's stored bytes.
    pub fn is_stored_as(&self, stored: &[u8]) -> bool {
        self.stored == stored
    }

    /// The object as JSON with its resourceVersion, as GET answers it. One copy, no parsing.
    pub fn json(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.json_len());
        self.put_json(&mut out);
        out.freeze()
    }

    /// Appends [`Entry::json`].
    pub fn put_json(&self, out: &mut BytesMut) {
        out.put_slice(&self.stored[..self.metadata]);
        self.put_metadata_on(out);
    }

    /// The length of [`Entry::json`].
    pub fn json_len(&self) -> usize {
        self.stored.len() + self.version().len()
    }

    /// Appends the object without its type, as an item of a list. One copy, no parsing.
    pub fn put_item(&self, out: &mut BytesMut) {
        out.put_u8(b'{');
        self.put_metadata_on(out);
    }

    /// The number of bytes that [`Entry::put_item`] appends.
    pub fn item_len(&self) -> usize {
        self.json_len() - self.metadata + 1
    }

    /// Appends the metadata as JSON, with the resourceVersion. One copy, no parsing.
    pub fn put_metadata(&self, out: &mut BytesMut) {
        let metadata = object::metadata_of(self.item()).expect("an entry was made from stored bytes");
        out.put_u8(b'{');
        out.put_slice(self.version().as_bytes());
        out.put_slice(&metadata[1..]);
    }

    /// The object as a bare protobuf message with its resourceVersion; `None` if the kind has none. Encoded
    /// once, as long as there is space to keep it.
    pub fn message(&self) -> Option<Bytes> {
        if let Some(kept) = self.message.get() {
            return Some(kept.bytes());
        }
        let bytes = message::encode(self)?;
        if let Some(kept) = message::CachedMessage::new(bytes.clone()) {
            let _ = self.message.set(kept);
        }
        Some(bytes)
    }

    /// Bytes that this entry keeps alive.
    pub fn weight(&self) -> usize {
        self.stored.len()
    }

    /// A placeholder for an object whose bytes passed the partial decode but cannot be parsed. Only another
    /// writer of the storage can have stored such bytes.
    fn placeholder(&self, error: &serde_json::Error) -> Value {
        tracing::error!(%error, key = self.key(), "a stored object cannot be read");
        serde_json::json!({"apiVersion": self.resource.api_version(), "kind": self.resource.kind,
            "metadata": {"name": self.name(), "namespace": self.namespace(), "uid": self.uid()}})
    }

    fn item(&self) -> &[u8] {
        &self.stored[self.metadata..]
    }

    fn put_metadata_on(&self, out: &mut BytesMut) {
        out.put_slice(METADATA);
        out.put_slice(self.version().as_bytes());
        out.put_slice(&self.item()[METADATA.len()..]);
    }

    /// The resourceVersion as the first member of the metadata.
    fn version(&self) -> Version {
        let alone = self.item().get(METADATA.len()) == Some(&b'}');
        Version::of(self.revision, alone)
    }
}

/// `"resourceVersion":"N",` on the stack: it is made again for every answer.
struct Version {
    bytes: [u8; 48],
    len: usize,
}

impl Version {
    fn of(revision: i64, alone: bool) -> Self {
        use std::io::Write as _;
        let mut version = Self { bytes: [0; 48], len: 0 };
        let mut rest = &mut version.bytes[..];
        let end = if alone { "\"" } else { "\"," };
        write!(rest, "\"resourceVersion\":\"{revision}{end}").expect("a number has at most twenty digits");
        version.len = 48 - rest.len();
        version
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// The labels of an entry, sorted by key.
#[derive(Clone, Copy)]
pub struct LabelsOf<'e> {
    strings: &'e PackedStrings,
    first: usize,
}

impl<'e> LabelsOf<'e> {
    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&'e str> {
        let count = (self.strings.len() - self.first) / 2;
        let key_of = |at: usize| self.strings.get(self.first + 2 * at);
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low.midpoint(high);
            match key_of(middle).cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(self.strings.get(self.first + 2 * middle + 1)),
            }
        }
        None
    }
}

impl label::Labels for LabelsOf<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key)
    }
}

fn strings(resource: &'static Resource, key: &str, value: &Value) -> PackedStrings {
    let fields: Vec<_> = field::own_values(resource, value).collect();
    // The members of a JSON object are sorted, and so are the labels.
    let labels = meta::labels(value).into_iter().flatten();
    let labels = labels.flat_map(|(key, value)| [key.as_str(), value.as_str().unwrap_or_default()]);
    let identity = [key, meta::namespace(value), meta::name(value), meta::uid(value)];
    PackedStrings::of(identity.into_iter().chain(fields.iter().map(AsRef::as_ref)).chain(labels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::kind;
    use serde_json::json;

    fn entry(value: &Value, revision: i64) -> Entry {
        let row = kind::lookup("", "v1", "pods").unwrap();
        let stored = object::encode_stored(value);
        Entry::new(row, "/registry/pods/ns/p", value, stored.into(), revision, 1).unwrap()
    }

    fn pod() -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "uid": "u",
            "labels": {"b": "2", "a": "1", "c": ""}}, "spec": {"nodeName": "n1"}})
    }

    #[test]
    fn selectable_fields_and_labels_are_read_without_parsing() {
        let entry = entry(&pod(), 7);
        assert_eq!((entry.namespace(), entry.name(), entry.uid()), ("ns", "p", "u"));
        assert_eq!((entry.field("spec.nodeName"), entry.field("spec.hostNetwork")), ("n1", "false"));
        assert_eq!((entry.field("metadata.name"), entry.field("spec.what")), ("p", ""));
        let labels = ["a", "b", "c", "d"].map(|key| entry.labels().get(key));
        assert_eq!(labels, [Some("1"), Some("2"), Some(""), None]);
    }

    #[test]
    fn objects_that_a_kube_apiserver_wrote_as_json_are_read() {
        let row = kind::lookup("", "v1", "pods").unwrap();
        let read = |value: &'static str| {
            let key = "/registry/pods/ns/p".into();
            Entry::from_raw(
                row,
                &Raw { key, value: value.into(), undecrypted: None, revision: 7, created: 1 },
            )
        };
        let foreign = read(
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"ns","creationTimestamp":null},"spec":{"nodeName":"n1"}}"#,
        );
        let foreign = foreign.unwrap();
        assert_eq!((foreign.name(), foreign.field("spec.nodeName")), ("p", "n1"));
        assert_eq!(foreign.parse()["metadata"]["resourceVersion"], "7");
        for other in [r#"{"kind":"Pod","apiVersion":"v1"}"#, "[]", r#"{"kind":"Pod""#, "k8s\u{0}\n"] {
            assert!(read(other).is_err(), "{other}");
        }
    }

    #[test]
    fn every_encoding_has_the_resource_version() {
        let mut want = pod();
        want["metadata"]["resourceVersion"] = json!("9223372036854775807");
        let entry = entry(&pod(), i64::MAX);
        let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        assert_eq!(entry.parse(), want);
        assert_eq!((read(&entry.json()), entry.json().len()), (want.clone(), entry.json_len()));
        let (mut item, mut metadata) = (BytesMut::new(), BytesMut::new());
        entry.put_item(&mut item);
        entry.put_metadata(&mut metadata);
        assert_eq!((&read(&item)["metadata"], item.len()), (&want["metadata"], entry.item_len()));
        assert_eq!(
            (read(&metadata), entry.parse_metadata()),
            (want["metadata"].clone(), want["metadata"].clone())
        );
        assert!(entry.is_stored_as(&object::encode_stored(&want)));
    }

    #[test]
    fn an_object_without_metadata_gets_a_resource_version() {
        let entry = entry(&json!({"apiVersion": "v1", "kind": "Pod"}), 3);
        assert_eq!(
            &entry.json()[..],
            br#"{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"3"}}"#
        );
        let mut metadata = BytesMut::new();
        entry.put_metadata(&mut metadata);
        assert_eq!(&metadata[..], br#"{"resourceVersion":"3"}"#);
        assert_eq!(entry.deleted_at(4).parse()["metadata"], json!({"resourceVersion": "4"}));
    }
}
