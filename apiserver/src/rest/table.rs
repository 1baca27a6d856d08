//! Objects as rows (apiserver.md §1.10). The columns and cells of a kind are `kstore_api::table`'s; here they become a Table.

use crate::cache::Entry;
use crate::pipeline::in_version;
use jiff::Timestamp;
use kstore_api::kind::Resource;
use kstore_api::table;
use serde_json::{Value, json};

/// What a row carries besides its cells (`includeObject`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// The metadata: the default.
    Metadata,
    /// The whole object.
    Object,
}

impl Include {
    /// From the query parameter.
    pub fn parse(text: &str) -> Self {
        match text {
            "None" => Self::None,
            "Object" => Self::Object,
            _ => Self::Metadata,
        }
    }
}

/// How tables are made for one request.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    /// The kind, in the caller's version.
    pub resource: &'static Resource,
    /// The version of `meta.k8s.io`.
    pub version: String,
    /// What rows carry.
    pub include: Include,
}

impl Tables {
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

    /// One event's object as a table; only the first of a stream says what the columns are.
    pub(super) fn event(&self, entry: &Entry, first: bool, now: Timestamp) -> Value {
        let metadata = json!({"resourceVersion": entry.revision.to_string()});
        self.table(metadata, first.then(|| self.columns()), vec![self.row(entry, now)])
    }

    /// A bookmark as a table.
    pub(super) fn bookmark(&self, object: &Value) -> Value {
        let row = json!({"cells": null, "object": object});
        self.table(json!({"resourceVersion": object["metadata"]["resourceVersion"]}), None, vec![row])
    }

    fn table(&self, metadata: Value, columns: Option<Value>, rows: Vec<Value>) -> Value {
        json!({
            "kind": "Table",
            "apiVersion": format!("meta.k8s.io/{}", self.version),
            "metadata": metadata,
            "columnDefinitions": columns,
            "rows": rows,
        })
    }

    fn columns(&self) -> Value {
        let columns = table::columns(self.resource).iter().map(|column| {
            json!({"name": column.name, "type": column.kind, "format": column.format,
                "description": column.description, "priority": column.priority})
        });
        columns.collect()
    }

    fn row(&self, entry: &Entry, now: Timestamp) -> Value {
        let value = in_version(self.resource, entry.parse());
        let mut row = json!({"cells": table::cells(self.resource, &value, now)});
        if let Some(conditions) = table::row_conditions(self.resource, &value) {
            row["conditions"] = conditions;
        }
        match self.include {
            Include::None => {}
            Include::Metadata => row["object"] = partial(&value, &self.version),
            Include::Object => row["object"] = value,
        }
        row
    }
}

/// Only the metadata of an object.
pub(super) fn partial(value: &Value, version: &str) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": value["metadata"]})
}
