//! The API as clients see it through REST, an area per module.

/// Server-side apply and the books on field ownership.
mod apply;
/// Kinds of all groups but the core, `apps` and `batch`, and what is there from the start.
mod kinds_other;
/// Patches of the other kinds.
mod patch;
/// Rows and columns.
mod tables;
