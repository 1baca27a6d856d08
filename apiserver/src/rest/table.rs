//! [`Tables`]: objects as `meta.k8s.io` Tables. `kstore_api::table` has the columns and cells of each kind.

use bytes::{BufMut, BytesMut};
use jiff::Timestamp;
use kstore_api::crd::columns;
use kstore_api::resource::{Column, Resource};
use kstore_api::status::Status;
use kstore_api::{json, meta, table};
use kstore_registry::cache::{self, MetaVersion, RareForm};
use kstore_registry::conversion::in_version;
use kstore_registry::entry::Entry;
use kstore_registry::kinds::CustomVersion;
use serde_json::{Value, json};
use std::sync::Arc;

/// The object in a table row besides its cells (`includeObject`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    /// No object.
    None,
    /// The metadata of the object: the default.
    Metadata,
    /// The whole object.
    Object,
}

impl Include {
    /// Parses the query parameter.
    ///
    /// # Errors
    /// 400 for an unknown value.
    pub fn parse(text: &str) -> Result<Self, Status> {
        match text {
            "None" => Ok(Self::None),
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            other => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: \
                 must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }

    /// The value of the query parameter.
    fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Object => "Object",
        }
    }
}

/// How tables are encoded for one request.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    /// The kind, in the caller's version.
    pub resource: &'static Resource,
    /// The definition of a custom kind.
    pub custom: Option<CustomVersion>,
    /// The version of `meta.k8s.io`.
    pub version: MetaVersion,
    /// The object in each row.
    pub include: Include,
    /// The name of the object that the table marks as the default of its kind.
    pub default: Option<String>,
}

impl Tables {
    /// Marks the object among these that is the default of its kind, if lists of the kind mark one.
    pub(super) fn marking(self, entries: &[Arc<Entry>]) -> Self {
        if !table::marks_default(self.resource) {
            return self;
        }
        let objects: Vec<Value> = entries.iter().map(|entry| entry.parse()).collect();
        let default = table::default_of(self.resource, objects.iter()).map(str::to_owned);
        Self { default, ..self }
    }

    /// A table of these entries.
    pub(super) fn of<'a>(
        &self,
        entries: impl Iterator<Item = &'a Entry>,
        metadata: Value,
        now: Timestamp,
    ) -> Value {
        let rows: Vec<Value> = entries.map(|entry| self.row(entry, now)).collect();
        self.table(metadata, Some(self.columns()), rows)
    }

    /// A table without its member `rows`.
    pub(super) fn head(&self, metadata: Value) -> Value {
        let mut table = self.table(metadata, Some(self.columns()), Vec::new());
        table.as_object_mut().expect("a table is an object").remove("rows");
        table
    }

    /// The table of one event's object. Only the first event of a stream has column definitions.
    pub(super) fn event(&self, entry: &Entry, first: bool, now: Timestamp) -> Value {
        let metadata = json!({"resourceVersion": entry.revision.to_string()});
        self.table(metadata, first.then(|| self.columns()), vec![self.row(entry, now)])
    }

    /// The key under which the encoded rows of an event are shared: rows with another key differ.
    pub(super) fn look(&self, now: Timestamp) -> RareForm {
        RareForm::Row { version: self.version, carries: self.include.as_str(), second: now.as_second() }
    }

    /// A Scale as a table.
    pub(super) fn scale(&self, scale: &Value, now: Timestamp) -> Value {
        let mut row = json!({"cells": table::scale_cells(scale, now)});
        self.add_object(&mut row, scale.clone());
        let metadata = json!({"resourceVersion": scale["metadata"]["resourceVersion"]});
        self.table(metadata, Some(definitions(table::scale_columns())), vec![row])
    }

    /// A table of objects that are computed on request: one object, or a list of them.
    pub(super) fn computed(&self, value: &Value, now: Timestamp) -> Value {
        let items = value["items"].as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        let rows = items.iter().map(|item| self.row_of(item.clone(), now)).collect();
        self.table(json!({}), Some(self.columns()), rows)
    }

    /// The table of a bookmark.
    pub(super) fn bookmark(&self, object: &Value) -> Value {
        let row = json!({"cells": null, "object": object});
        self.table(json!({"resourceVersion": object["metadata"]["resourceVersion"]}), None, vec![row])
    }

    fn table(&self, metadata: Value, columns: Option<Value>, rows: Vec<Value>) -> Value {
        json!({
            "kind": "Table",
            "apiVersion": self.version.api_version(),
            "metadata": metadata,
            "columnDefinitions": columns,
            "rows": rows,
        })
    }

    fn columns(&self) -> Value {
        match &self.custom {
            Some(custom) => json!(&custom.version().columns[..]),
            None => definitions(table::columns(self.resource)),
        }
    }

    fn cells(&self, value: &Value, now: Timestamp) -> Vec<Value> {
        match &self.custom {
            Some(custom) => columns::cells(&custom.version().columns, value, now),
            None => table::cells(self.resource, value, now),
        }
    }

    /// One object as a row.
    pub(super) fn row(&self, entry: &Entry, now: Timestamp) -> Value {
        self.row_of(in_version(self.resource, entry.parse()), now)
    }

    /// Appends [`Tables::row`] as JSON. The included object is copied from the stored bytes instead of being
    /// encoded again.
    pub(super) fn put_row(&self, entry: &Entry, now: Timestamp, out: &mut BytesMut) {
        if !entry.resource.is_same_version(self.resource) {
            return out.put_slice(&json::to_vec(&self.row(entry, now)));
        }
        let bare = Self { include: Include::None, ..self.clone() };
        let row = json::to_vec(&bare.row_of(entry.parse_without_managed_fields(), now));
        out.put_slice(&row[..row.len() - 1]);
        if self.include != Include::None {
            out.put_slice(b",\"object\":");
        }
        match self.include {
            Include::None => {}
            Include::Metadata => cache::put_partial(entry, self.version, out),
            Include::Object => entry.put_json(out),
        }
        out.put_u8(b'}');
    }

    fn row_of(&self, value: Value, now: Timestamp) -> Value {
        let mut row = json!({"cells": self.cells(&value, now)});
        if let Some(name) = self.default.as_deref().filter(|name| *name == meta::name(&value)) {
            row["cells"][0] = table::marked_name(name);
        }
        if let Some(conditions) = table::row_conditions(self.resource, &value) {
            row["conditions"] = conditions;
        }
        self.add_object(&mut row, value);
        row
    }

    /// Adds the object to a row.
    fn add_object(&self, row: &mut Value, mut object: Value) {
        match self.include {
            Include::None => {}
            Include::Metadata => row["object"] = partial(object["metadata"].take(), self.version),
            Include::Object => row["object"] = object,
        }
    }
}

fn definitions(columns: &[Column]) -> Value {
    let definition = |column: &Column| {
        json!({"name": column.name, "type": column.kind, "format": column.format,
            "description": column.description, "priority": column.priority})
    };
    columns.iter().map(definition).collect()
}

/// An object with its metadata only.
pub(super) fn partial(metadata: Value, version: MetaVersion) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": version.api_version(), "metadata": metadata})
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::kind;
    use kstore_api::object::encode_stored;

    #[test]
    fn rows_from_stored_bytes_equal_rows_from_objects() {
        let pods = kind::lookup("", "v1", "pods").unwrap();
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Failed"},
            "metadata": {"name": "p", "labels": {"a": "\u{fc}"}, "managedFields": [{"manager": "m"}]}});
        let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h", "managedFields": [{"manager": "m"}]},
            "spec": {"minReplicas": 2, "metrics": [{"type": "Resource", "resource": {"name": "memory"}}]}});
        let [v1, v2] = ["v1", "v2"]
            .map(|version| kind::lookup("autoscaling", version, "horizontalpodautoscalers").unwrap());
        for (stored, requested, object) in [(pods, pods, &pod), (v2, v2, &scaler), (v2, v1, &scaler)] {
            let stored =
                Entry::new(stored, "/registry/x", object, encode_stored(object).into(), 7, 1).unwrap();
            for include in [Include::None, Include::Metadata, Include::Object] {
                let version = MetaVersion::V1;
                let tables = Tables { resource: requested, custom: None, version, include, default: None };
                let mut row = BytesMut::new();
                tables.put_row(&stored, Timestamp::UNIX_EPOCH, &mut row);
                let row: Value = serde_json::from_slice(&row).unwrap();
                assert_eq!(
                    row,
                    tables.row(&stored, Timestamp::UNIX_EPOCH),
                    "{} {include:?}",
                    requested.version
                );
            }
        }
    }
}
