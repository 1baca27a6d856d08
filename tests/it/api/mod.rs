//! The API as clients see it through REST, an area per module.

/// Server-side apply and the books on field ownership.
mod apply;
/// Defaults and refusals of the kinds of core, apps and batch.
mod kinds_core;
/// Patches of the other kinds.
mod patch;
