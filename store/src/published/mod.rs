//! The published state, which all threads of a store share: what is durable, and what every reader sees.
//!
//! `core` has it, with the reads of it; the other modules are its parts:
//!
//! - Watches: `hub` delivers events to each `registration`; `watcher_index` and `intervals` find the interested ones.
//! - Leases: `lease_clock` has their deadlines.
//! - Space: `quota` accounts for stored bytes, `superseded` for those of each part of the history.
//! - History: `pins` delays the removal of records while a long read runs, `recall` finds copies of damaged ones.
//! - `waiters`: the callers that wait for the background worker.
//!
//! Promise: state only moves forward, in commits, and only after the caller says that they are durable; a lock is held
//! for a few lines and never while waiting for the disk. Never here: staged changes (`runtime::writer`), threads, and
//! writes to the log or the manifest.

pub(crate) mod core;
pub(crate) mod hub;
mod intervals;
pub(crate) mod lease_clock;
pub(crate) mod pins;
pub(crate) mod quota;
pub(crate) mod recall;
pub(crate) mod registration;
pub(crate) mod superseded;
pub(crate) mod waiters;
mod watcher_index;
