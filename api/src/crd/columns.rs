//! Rows of custom objects in tables: the columns of a version (`additionalPrinterColumns`) and the cells of an object.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

/// A column of a custom kind's table, in the form of `columnDefinitions`.
#[derive(Clone, Debug, Serialize)]
pub struct ObjectColumn {
    /// Header; kubectl prints it in capitals.
    pub name: String,
    /// OpenAPI type of the cells.
    #[serde(rename = "type")]
    pub kind: String,
    /// OpenAPI format; `name` marks the object's name.
    pub format: String,
    /// What the column tells.
    pub description: String,
    /// 0 is always shown; more only with `-o wide`.
    pub priority: i32,
}

/// The columns of a version: `Name`, then those of `additionalPrinterColumns`, or `Age` where there are none.
#[must_use]
pub fn of_version(version: &Value) -> Arc<[ObjectColumn]> {
    let _ = version;
    todo!()
}

/// The cells of one object, as many as there are columns. Times of type `date` are durations up to `now`; missing values are null.
#[must_use]
pub fn cells(columns: &[ObjectColumn], object: &Value, now: Timestamp) -> Vec<Value> {
    let _ = (columns, object, now);
    todo!()
}
