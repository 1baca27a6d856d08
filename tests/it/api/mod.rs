//! The API as clients see it through REST, an area per module.

/// Server-side apply and the books on field ownership.
mod apply;
/// Patches of the other kinds.
mod patch;
/// Requests that chance makes up.
mod random;
