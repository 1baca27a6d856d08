//! The API as clients see it through REST, an area per module.

/// Server-side apply and the books on field ownership.
mod apply;
/// Which resources there are, in every form in which clients ask.
mod discovery;
/// Health and the version.
mod health;
/// What is counted, held to the formats it is written in.
mod metrics;
/// Documents of the API for people, kubectl and generators of clients.
mod openapi;
/// Patches of the other kinds.
mod patch;
