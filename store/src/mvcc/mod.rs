//! Multi-version data in memory: which versions of which keys exist at a revision.
//!
//! `index` has every key with its newest version and the positions of the older ones, `window` the newest commits,
//! `staged` the writer's overlay, which readers do not see. `view` evaluates ranges on them.
//!
//! Promise: pure data structures; an answer depends on nothing but them and the request. Never here: locks, threads,
//! I/O, and old versions that are only in an engine (a read returns their keys, and the caller fetches them).

pub(crate) mod index;
pub(crate) mod staged;
pub(crate) mod view;
pub(crate) mod window;
