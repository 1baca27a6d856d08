//! Reads of the history that take many steps: watches that lag, and iteration from the beginning.
//!
//! `watcher` is the caller's side of a watch; when it is behind, `watch_history` reads past events for it. `history`
//! iterates over all records, and `hash` is etcd's HashKV over them. A range at one revision is a single step:
//! `published::core` has it.
//!
//! Promise: a step reads a bounded number of bytes, on the caller's thread, and blocks no writer. Never here: changes of
//! published state.

pub(crate) mod hash;
pub(crate) mod history;
mod watch_history;
pub(crate) mod watcher;
