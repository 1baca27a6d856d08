//! The entries of `metadata.managedFields`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::set::FieldSet;
use crate::schema::limits::MAX_UPDATE_MANAGERS;

/// Who changed the object, and by which kind of request.
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

/// Identity of an entry; the version counts for updates only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) subresource: String,
    pub(super) api_version: String,
}

impl Owner {
    pub(super) fn new(manager: &str, operation: Operation, subresource: &str, api_version: &str) -> Self {
        let api_version = if operation == Operation::Update { api_version } else { "" };
        let (manager, subresource) = (manager.to_owned(), subresource.to_owned());
        Self { manager, operation, subresource, api_version: api_version.to_owned() }
    }
}

/// As conflict messages name an owner.
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

/// What an owner owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holding {
    pub(super) fields: FieldSet,
    pub(super) api_version: String,
    /// RFC 3339; empty if unknown.
    pub(super) time: String,
}

/// All owners of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Managed(pub(super) BTreeMap<Owner, Holding>);

impl Managed {
    /// The entries of an object. Undecodable entries count as none at all.
    pub(super) fn of(object: &Value) -> Option<Self> {
        let entries = object["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default();
        entries.iter().map(entry).collect::<Option<BTreeMap<_, _>>>().map(Self)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the entries into an object, in the order of the API.
    pub(super) fn store(self, object: &mut Value) {
        let mut entries: Vec<(Owner, Holding)> =
            self.0.into_iter().filter(|(_, holding)| !holding.fields.is_empty()).collect();
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        if entries.is_empty() {
            metadata.remove("managedFields");
            return;
        }
        entries.sort_by(|(a, x), (b, y)| {
            (a.operation, &x.time, &a.manager, &x.api_version, &a.subresource).cmp(&(
                b.operation,
                &y.time,
                &b.manager,
                &y.api_version,
                &b.subresource,
            ))
        });
        let entries: Vec<Value> =
            entries.into_iter().map(|(owner, holding)| to_json(owner, holding)).collect();
        metadata.insert("managedFields".to_owned(), Value::Array(entries));
    }

    /// Merges the oldest update entries of each version when there are too many.
    pub(super) fn cap(&mut self) {
        let mut updaters: Vec<(String, Owner)> = self
            .0
            .iter()
            .filter(|(owner, _)| owner.operation == Operation::Update)
            .map(|(owner, holding)| (holding.time.clone(), owner.clone()))
            .collect();
        updaters.sort();
        let mut first: BTreeMap<String, Owner> = BTreeMap::new();
        let mut count = updaters.len();
        for (_, owner) in updaters {
            if count <= MAX_UPDATE_MANAGERS {
                return;
            }
            let Some(earlier) = first.get(&owner.api_version) else {
                first.insert(owner.api_version.clone(), owner);
                continue;
            };
            let bucket = Owner::new("ancient-changes", Operation::Update, "", &owner.api_version);
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

/// True if a client asks to forget all owners: an empty list, or a list of one empty entry.
pub(super) fn asks_reset(object: &Value) -> bool {
    match object["metadata"]["managedFields"].as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        Some(_) | None => false,
    }
}

fn entry(value: &Value) -> Option<(Owner, Holding)> {
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return None,
    };
    if text("fieldsType") != "FieldsV1" || text("apiVersion").is_empty() {
        return None;
    }
    let fields = value.get("fieldsV1").map_or_else(|| Some(FieldSet::default()), FieldSet::from_json)?;
    let owner = Owner::new(text("manager"), operation, text("subresource"), text("apiVersion"));
    Some((
        owner,
        Holding { fields, api_version: text("apiVersion").to_owned(), time: text("time").to_owned() },
    ))
}

fn to_json(owner: Owner, holding: Holding) -> Value {
    let mut out = json!({
        "operation": owner.operation.as_str(),
        "apiVersion": holding.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": holding.fields.to_json(),
    });
    let optional = [("manager", owner.manager), ("subresource", owner.subresource), ("time", holding.time)];
    for (name, text) in optional {
        if !text.is_empty() {
            out[name] = Value::from(text);
        }
    }
    out
}
