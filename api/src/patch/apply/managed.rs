//! Decoded entries of `metadata.managedFields`.

use super::node::Node;
use super::set::FieldSet;
use super::walk::Difference;
use crate::schema::limits::MAX_UPDATE_MANAGERS;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Kind of the write that a managed-fields entry records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Identity of an entry: manager, operation, subresource, and for updates the version. The derived order is
/// that of conflict messages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl Owner {
    pub(super) fn new(manager: &str, operation: Operation, subresource: &str, api_version: &str) -> Self {
        let api_version = if operation == Operation::Update { api_version } else { "" };
        let (manager, subresource) = (manager.to_owned(), subresource.to_owned());
        Self { manager, operation, subresource, api_version: api_version.to_owned() }
    }
}

/// Formats the owner as in conflict messages.
impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.manager)?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {:?}", self.subresource)?;
        }
        match self.operation {
            Operation::Update => write!(f, " using {}", self.api_version),
            Operation::Apply => Ok(()),
        }
    }
}

/// Field set of an entry, decoded on demand. Most writes concern the fields of few entries, so the others
/// stay undecoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EntryFields {
    /// The JSON as stored.
    Text(Value),
    /// The decoded set.
    Set(FieldSet),
}

impl EntryFields {
    /// The decoded field set.
    pub(super) fn set(&self) -> Cow<'_, FieldSet> {
        match self {
            // Stored JSON was checked before it was stored. An unreadable set owns nothing.
            Self::Text(text) => Cow::Owned(FieldSet::from_json(text).unwrap_or_default()),
            Self::Set(set) => Cow::Borrowed(set),
        }
    }

    /// The decoded field set by value.
    pub(super) fn into_set(self) -> FieldSet {
        match self {
            Self::Text(_) => self.set().into_owned(),
            Self::Set(set) => set,
        }
    }

    /// The decoded field set, with fields below atomic values replaced by the atomic value.
    fn settled(&self, node: Node<'_>) -> FieldSet {
        self.set().into_owned().settled(node)
    }

    /// Whether these fields can overlap the given sets. True for decoded sets; for JSON it compares the first
    /// path elements.
    fn may_overlap(&self, parts: &[&FieldSet]) -> bool {
        match self {
            Self::Text(text) => {
                let mut heads = text.as_object().into_iter().flat_map(|fields| fields.keys());
                heads.any(|head| parts.iter().any(|part| part.has_prefix(head)))
            }
            Self::Set(_) => true,
        }
    }

    /// Adds fields in place, so that merging thousands of entries does not copy the result for each.
    fn extend(&mut self, other: &Self) {
        if let Self::Text(_) = self {
            *self = Self::Set(self.set().into_owned());
        }
        if let Self::Set(set) = self {
            set.extend(&other.set());
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.as_object().is_none_or(Map::is_empty),
            Self::Set(set) => set.is_empty(),
        }
    }

    fn into_json(self) -> Value {
        match self {
            Self::Text(text) => text,
            Self::Set(set) => set.into_json(),
        }
    }
}

/// Fields of one owner, with the version and the time of the entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnedFields {
    pub(super) fields: EntryFields,
    pub(super) api_version: String,
    /// RFC 3339; empty if unknown.
    pub(super) time: String,
}

impl OwnedFields {
    /// Removes the fields that another write changed or removed.
    pub(super) fn remove_changed(&mut self, difference: &Difference, node: Node<'_>) {
        let parts = [&difference.added, &difference.modified, &difference.removed];
        if !self.fields.may_overlap(&parts) {
            return;
        }
        let mut left = self.fields.settled(node);
        parts.into_iter().for_each(|part| left.subtract(part));
        self.fields = EntryFields::Set(left);
    }

    /// The owned fields that the write changes.
    pub(super) fn conflicts(&self, changed: &FieldSet, node: Node<'_>) -> FieldSet {
        if !self.fields.may_overlap(&[changed]) {
            return FieldSet::default();
        }
        self.fields.settled(node).intersection(changed)
    }
}

/// Managed-fields entries of an object by owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ManagedFields(pub(super) BTreeMap<Owner, OwnedFields>);

impl ManagedFields {
    /// Decodes the entries of a stored object; skips malformed entries.
    pub(super) fn stored(object: &Value) -> Self {
        Self::of(list(object).to_vec())
    }

    /// Decodes entries; skips malformed ones.
    pub(super) fn of(entries: Vec<Value>) -> Self {
        Self(entries.into_iter().filter_map(entry).collect())
    }

    /// Whether a stored object has an entry that can be decoded.
    pub(super) fn are_stored_in(object: &Value) -> bool {
        list(object).iter().any(|entry| operation(entry).is_some())
    }

    /// The entries that a client sent; `None` if they cannot be read.
    pub(super) fn sent(object: &Value) -> Option<Self> {
        let read = |value: &Value| {
            let (owner, mut holding) = entry(value.clone())?;
            if let EntryFields::Text(text) = &holding.fields {
                holding.fields = EntryFields::Set(FieldSet::from_json(text)?);
            }
            Some((owner, holding))
        };
        list(object).iter().map(read).collect::<Option<BTreeMap<_, _>>>().map(Self)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes owners without fields.
    pub(super) fn settle(&mut self) {
        self.0.retain(|_, holding| !holding.fields.is_empty());
    }

    /// Writes the entries into an object, in the API's order.
    pub(super) fn store(self, object: &mut Value) {
        let entries = self.entries();
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        if entries.is_empty() {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".to_owned(), Value::Array(entries));
        }
    }

    /// The entries in the API's order: applies first, then by time, manager, version and subresource.
    pub(super) fn entries(self) -> Vec<Value> {
        let mut entries: Vec<(Owner, OwnedFields)> = self.0.into_iter().collect();
        entries.sort_by(|(a, x), (b, y)| {
            (a.operation, &x.time, &a.manager, &x.api_version, &a.subresource).cmp(&(
                b.operation,
                &y.time,
                &b.manager,
                &y.api_version,
                &b.subresource,
            ))
        });
        entries.into_iter().map(|(owner, holding)| to_json(owner, holding)).collect()
    }

    /// Merges the oldest update entries of each version when there are more than [`MAX_UPDATE_MANAGERS`].
    pub(super) fn cap(&mut self) {
        let updaters = self.0.iter().filter(|(owner, _)| owner.operation == Operation::Update);
        let mut count = updaters.clone().count();
        if count <= MAX_UPDATE_MANAGERS {
            return;
        }
        let mut updaters: Vec<(String, Owner)> =
            updaters.map(|(owner, holding)| (holding.time.clone(), owner.clone())).collect();
        updaters.sort();
        let mut first: BTreeMap<String, Owner> = BTreeMap::new();
        for (_, owner) in updaters {
            if count <= MAX_UPDATE_MANAGERS {
                return;
            }
            let bucket = Owner::new("ancient-changes", Operation::Update, "", &owner.api_version);
            let Some(earlier) = first.get(&owner.api_version).filter(|_| owner != bucket) else {
                first.entry(owner.api_version.clone()).or_insert(owner);
                continue;
            };
            let gathered = self.0.remove(&bucket).or_else(|| self.0.remove(earlier));
            if let (Some(mut gathered), Some(holding)) = (gathered, self.0.remove(&owner)) {
                gathered.fields.extend(&holding.fields);
                gathered.time = holding.time;
                self.0.insert(bucket, gathered);
                count -= 1;
            }
        }
    }
}

fn list(object: &Value) -> &[Value] {
    object["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// True if a client asks the server to forget all owners: an empty list, or a list of one empty entry.
pub(super) fn requests_reset(object: &Value) -> bool {
    match object["metadata"]["managedFields"].as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        Some(_) | None => false,
    }
}

/// Operation of an entry; `None` if the entry is malformed.
fn operation(entry: &Value) -> Option<Operation> {
    let text = |name: &str| entry[name].as_str().unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return None,
    };
    let is_known = text("fieldsType") == "FieldsV1" && !text("apiVersion").is_empty();
    let has_fields = matches!(entry["fieldsV1"], Value::Object(_) | Value::Null);
    (is_known && has_fields).then_some(operation)
}

fn entry(mut value: Value) -> Option<(Owner, OwnedFields)> {
    let operation = operation(&value)?;
    let fields = match value.get_mut("fieldsV1").map(Value::take) {
        Some(fields @ Value::Object(_)) => fields,
        _ => json!({}),
    };
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let owner = Owner::new(text("manager"), operation, text("subresource"), text("apiVersion"));
    let (api_version, time) = (text("apiVersion").to_owned(), text("time").to_owned());
    Some((owner, OwnedFields { fields: EntryFields::Text(fields), api_version, time }))
}

fn to_json(owner: Owner, holding: OwnedFields) -> Value {
    let mut out = json!({
        "operation": owner.operation.as_str(),
        "apiVersion": holding.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": holding.fields.into_json(),
    });
    let optional = [("manager", owner.manager), ("subresource", owner.subresource), ("time", holding.time)];
    for (name, text) in optional {
        if !text.is_empty() {
            out[name] = Value::from(text);
        }
    }
    out
}
