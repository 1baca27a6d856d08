//! Multi-version data: keys with all their versions, the changes that commits make to them, and reads at any revision.
//!
//! - Values: `revision`, `key_range`, `kv`, `event`, `commit` (all changes of one request), `range` (a read and its
//!   result).
//! - In memory: `index` (every key with its newest version), `window` (the newest commits), `core` (the published state
//!   that readers share), `staged` (the writer's overlay, which readers do not see).
//! - Reads and removal: `view` evaluates ranges, `history` iterates over all records, `hash` is etcd's HashKV over
//!   them, `compact` removes what no read can reach, `pins` delays that removal while a long read runs.
//!
//! Not here: evaluation of transactions (`txn`), threads (`runtime`), and files (`wal`, `engine`).

pub(crate) mod commit;
pub(crate) mod compact;
pub(crate) mod core;
pub(crate) mod event;
pub(crate) mod hash;
pub(crate) mod history;
pub(crate) mod index;
pub(crate) mod key_range;
pub(crate) mod kv;
pub(crate) mod pins;
pub(crate) mod range;
pub(crate) mod revision;
pub(crate) mod staged;
pub(crate) mod view;
pub(crate) mod window;
