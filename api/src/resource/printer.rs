//! Columns of `kubectl get`, and the function that computes their cells; `table` has those of each kind.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

/// Table column, with the fields of `columnDefinitions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Header; kubectl prints it in capitals.
    pub name: &'static str,
    /// OpenAPI type of the cells.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// OpenAPI format; `name` marks the object's name.
    pub format: &'static str,
    /// Description of the cells.
    pub description: &'static str,
    /// Priority: 0 is always shown, higher ones only with `-o wide`.
    pub priority: i32,
}

/// Columns of a kind, and the function that computes the cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printer {
    /// All columns; clients hide those of higher priority.
    pub(crate) columns: &'static [Column],
    /// Cells of an object at a time, one for each column.
    pub(crate) cells: fn(&Value, Timestamp) -> Vec<Value>,
}
