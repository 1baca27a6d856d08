//! Values that all levels share, and what is said about them: errors, limits, configuration, counters, invariants.
//!
//! - Data: `revision`, `key_range`, `kv` (a version of a key, in the bytes of `kv_encoding`), `key_version` (a
//!   version's revision), `event`, `commit` (all changes of one request), `record` (what an engine stores of it),
//!   `state` (what commits establish beside keys).
//! - Requests and results: `range`, `txn`, `lease`, `watch`; `alarm` is a state that refuses some of them.
//! - About the store: `config`, `limits`, `error`, `metrics`, `invariants`.
//!
//! Promise: a value is complete in itself, so it can be copied, compared and encoded without a store. Never here: I/O,
//! locks, threads, clocks, and other modules of this crate.

pub(crate) mod alarm;
pub(crate) mod commit;
pub(crate) mod config;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod invariants;
pub(crate) mod key_range;
pub(crate) mod key_version;
pub(crate) mod kv;
pub(crate) mod kv_encoding;
pub(crate) mod lease;
pub(crate) mod limits;
pub(crate) mod metrics;
pub(crate) mod range;
pub(crate) mod record;
pub(crate) mod revision;
pub(crate) mod state;
pub(crate) mod txn;
pub(crate) mod watch;
