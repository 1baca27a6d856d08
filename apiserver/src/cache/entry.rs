//! One object as the apiserver holds it: the stored bytes, shared with the store, and the few strings that selectors look at.
//! Not a parsed object: who needs one parses the bytes.

use super::facts::Facts;
use super::{glance, message};
use crate::kinds::Views;
use crate::storage::Raw;
use bytes::{BufMut, Bytes, BytesMut};
use kstore_api::kind::Resource;
use kstore_api::selector::{field, label};
use kstore_api::{meta, object};
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// An object at a revision. Immutable; shared by cache, lists and watches.
#[derive(Debug)]
pub struct Entry {
    /// The table row of its kind, in the version that is stored.
    pub resource: &'static Resource,
    /// `metadata.resourceVersion`.
    pub revision: i64,
    /// The revision at which the object was created.
    pub created: i64,
    /// The revision that wrote `stored`: that of the object but for the last state of a deleted one.
    written: i64,
    /// The bytes as they are stored: without a resourceVersion.
    stored: Bytes,
    /// Where in `stored` the metadata begins.
    metadata: usize,
    facts: Facts,
    /// The object as a protobuf message, once somebody wanted it and if there was room to keep it.
    message: OnceLock<message::Kept>,
    /// The object parsed, if it is one that every write asks about.
    value: OnceLock<Arc<Value>>,
    /// Of custom kinds: what other versions and schemas make of it.
    views: Views,
}

// The order of the facts; fields and then labels follow.
const KEY: usize = 0;
const NAMESPACE: usize = 1;
const NAME: usize = 2;
const UID: usize = 3;
const FIELDS: usize = 4;

/// What the metadata of an answered object begins with.
const METADATA: &[u8] = b"\"metadata\":{";

/// Why stored bytes are not an object.
#[derive(Debug, thiserror::Error)]
#[error("the stored value of {key} is not a valid object: {reason}")]
pub struct Malformed {
    key: String,
    reason: String,
}

impl Entry {
    /// From stored bytes, of which only what selectors look at is read.
    pub fn from_raw(resource: &'static Resource, raw: &Raw) -> Result<Self, Malformed> {
        let malformed =
            |reason: String| Malformed { key: String::from_utf8_lossy(&raw.key).into_owned(), reason };
        let value = glance::read(&raw.value, resource).map_err(|e| malformed(e.to_string()))?;
        let key = std::str::from_utf8(&raw.key).map_err(|e| malformed(e.to_string()))?;
        Self::new(resource, key, &value, raw.value.clone(), raw.revision, raw.created)
    }

    /// From an object that was just written, and the bytes that were stored for it.
    pub fn new(
        resource: &'static Resource,
        key: &str,
        value: &Value,
        stored: Bytes,
        revision: i64,
        created: i64,
    ) -> Result<Self, Malformed> {
        let item = object::without_type_meta(&stored);
        let item = item.map_err(|e| Malformed { key: key.to_owned(), reason: e.to_string() })?;
        let metadata = stored.len() - item.len();
        let facts = facts(resource, key, value);
        Ok(Self {
            resource,
            revision,
            created,
            written: revision,
            stored,
            metadata,
            facts,
            message: OnceLock::new(),
            value: OnceLock::new(),
            views: Views::default(),
        })
    }

    /// This last state with the revision at which it was deleted: what a DELETED event carries.
    pub fn deleted_at(&self, revision: i64) -> Self {
        let facts = Facts::of((0..self.facts.len()).map(|at| self.facts.get(at)));
        Self {
            revision,
            stored: self.stored.clone(),
            facts,
            message: OnceLock::new(),
            value: OnceLock::new(),
            views: Views::default(),
            ..*self
        }
    }

    /// The same object for another row of its kind: what selectors look at is read again.
    pub(super) fn remade(&self, resource: &'static Resource) -> Self {
        let facts = facts(resource, self.key(), &self.parse());
        Self {
            resource,
            stored: self.stored.clone(),
            facts,
            message: OnceLock::new(),
            value: OnceLock::new(),
            views: Views::default(),
            ..*self
        }
    }

    /// The revision that wrote the object's bytes.
    pub(crate) fn written(&self) -> i64 {
        self.written
    }

    /// What versions of a custom kind make of it.
    pub(crate) fn views(&self) -> &Views {
        &self.views
    }

    /// The storage key.
    pub fn key(&self) -> &str {
        self.facts.get(KEY)
    }

    /// `metadata.namespace`, or empty.
    pub fn namespace(&self) -> &str {
        self.facts.get(NAMESPACE)
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.facts.get(NAME)
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.facts.get(UID)
    }

    /// A field that the kind can be selected by; empty if it is no such field.
    pub fn field(&self, label: &str) -> &str {
        match label {
            field::NAME => self.name(),
            field::NAMESPACE => self.namespace(),
            _ => match field::position(self.resource, label) {
                Some(at) => self.facts.get(FIELDS + at),
                None => "",
            },
        }
    }

    /// Its labels.
    pub fn labels(&self) -> LabelsOf<'_> {
        LabelsOf { facts: &self.facts, first: FIELDS + field::own_labels(self.resource).len() }
    }

    /// The object, parsed.
    pub fn parse(&self) -> Value {
        let read = serde_json::from_slice(&self.stored);
        let mut value: Value = read.unwrap_or_else(|error| self.remains(&error));
        value["metadata"]["resourceVersion"] = self.revision.to_string().into();
        value
    }

    /// The same without `metadata.managedFields`, which nothing shows but they themselves.
    pub fn parse_without_books(&self) -> Value {
        let Ok(mut value) = glance::without_books(&self.stored) else { return self.parse() };
        value["metadata"]["resourceVersion"] = self.revision.to_string().into();
        value
    }

    /// [`Entry::parse`] for those who only look. A namespace, which each write into it asks about, is parsed once and kept so: there
    /// are few of them.
    pub fn parsed(&self) -> Arc<Value> {
        let parse = || Arc::new(self.parse());
        match self.resource.plural == "namespaces" {
            true => self.value.get_or_init(parse).clone(),
            false => parse(),
        }
    }

    /// The parts of it that `T` names, and no others: a fraction of the work. Its metadata lack the resourceVersion. None if it has
    /// not all of them.
    pub(crate) fn parse_parts<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.stored).ok()
    }

    /// Only its metadata, parsed: a fraction of the work.
    pub fn parse_metadata(&self) -> Value {
        let bytes = object::metadata_of(self.item()).expect("an entry was made from stored bytes");
        let read = serde_json::from_slice(bytes);
        let mut metadata: Value = read.unwrap_or_else(|error| self.remains(&error)["metadata"].take());
        metadata["resourceVersion"] = self.revision.to_string().into();
        metadata
    }

    /// Whether these are the bytes that are stored for this entry.
    pub fn is_stored_as(&self, stored: &[u8]) -> bool {
        self.stored == stored
    }

    /// The object as JSON with its resourceVersion: what GET answers. One copy, no parsing.
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

    /// Appends the object without its type: an item of a list. One copy, no parsing.
    pub fn put_item(&self, out: &mut BytesMut) {
        out.put_u8(b'{');
        self.put_metadata_on(out);
    }

    /// How many bytes [`Entry::put_item`] appends.
    pub fn item_len(&self) -> usize {
        self.json_len() - self.metadata + 1
    }

    /// The metadata alone, as JSON, with the resourceVersion. One copy, no parsing.
    pub fn put_metadata(&self, out: &mut BytesMut) {
        let metadata = object::metadata_of(self.item()).expect("an entry was made from stored bytes");
        out.put_u8(b'{');
        out.put_slice(self.version().as_bytes());
        out.put_slice(&metadata[1..]);
    }

    /// The object as a bare protobuf message with its resourceVersion; `None` if the kind has none. Made once, as long as
    /// there is room to keep it.
    pub fn message(&self) -> Option<Bytes> {
        if let Some(kept) = self.message.get() {
            return Some(kept.bytes());
        }
        let bytes = message::encode(self)?;
        if let Some(kept) = message::Kept::new(bytes.clone()) {
            let _ = self.message.set(kept);
        }
        Some(bytes)
    }

    /// The bytes that this entry keeps alive.
    pub fn weight(&self) -> usize {
        self.stored.len()
    }

    /// What is known of an object whose bytes looked like one at a glance and are none. Only another writer of the storage
    /// can have left such bytes.
    fn remains(&self, error: &serde_json::Error) -> Value {
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

    /// The resourceVersion member, as the first of the metadata.
    fn version(&self) -> Version {
        let alone = self.item().get(METADATA.len()) == Some(&b'}');
        Version::of(self.revision, alone)
    }
}

/// `"resourceVersion":"N",` on the stack: it is made anew for every answer.
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
    facts: &'e Facts,
    first: usize,
}

impl<'e> LabelsOf<'e> {
    /// The value of one label.
    pub fn get(&self, key: &str) -> Option<&'e str> {
        let count = (self.facts.len() - self.first) / 2;
        let key_of = |at: usize| self.facts.get(self.first + 2 * at);
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low.midpoint(high);
            match key_of(middle).cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(self.facts.get(self.first + 2 * middle + 1)),
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

fn facts(resource: &'static Resource, key: &str, value: &Value) -> Facts {
    let fields: Vec<_> = field::own_values(resource, value).collect();
    // A JSON object's members are sorted, so labels are.
    let labels = meta::labels(value).into_iter().flatten();
    let labels = labels.flat_map(|(key, value)| [key.as_str(), value.as_str().unwrap_or_default()]);
    let identity = [key, meta::namespace(value), meta::name(value), meta::uid(value)];
    Facts::of(identity.into_iter().chain(fields.iter().map(AsRef::as_ref)).chain(labels))
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
    fn what_selectors_look_at_is_found_without_parsing() {
        let entry = entry(&pod(), 7);
        assert_eq!((entry.namespace(), entry.name(), entry.uid()), ("ns", "p", "u"));
        assert_eq!((entry.field("spec.nodeName"), entry.field("spec.hostNetwork")), ("n1", "false"));
        assert_eq!((entry.field("metadata.name"), entry.field("spec.what")), ("p", ""));
        let labels = ["a", "b", "c", "d"].map(|key| entry.labels().get(key));
        assert_eq!(labels, [Some("1"), Some("2"), Some(""), None]);
    }

    #[test]
    fn every_form_carries_the_revision() {
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
    fn an_object_without_any_metadata_gets_its_revision_too() {
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
