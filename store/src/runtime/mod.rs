//! The path of a write and the threads on it: from a caller's request to its durable, published commit and the reply.
//!
//! In this order: `request` and `driver` (dispatches requests), `queue` (requests wait), `writer_thread` with
//! `writer` (the one owner of staged state), `group` (commits that share one sync), `log_handover` (the group that
//! waits for the log), `log` (writes, syncs, publishes, replies). `threads` starts and ends all threads; `stepped`
//! replaces them in tests.
//!
//! Promise: requests are evaluated in one order, and neither a reply nor a change is visible before the sync that covers
//! it. Never here: what a transaction means (`txn`), the log's files (`wal`), and work that no caller waits for
//! (`background`).

pub(crate) mod driver;
pub(crate) mod group;
pub(crate) mod log;
mod log_handover;
pub(crate) mod queue;
pub(crate) mod request;
#[cfg(test)]
pub(crate) mod stepped;
pub(crate) mod threads;
pub(crate) mod writer;
pub(crate) mod writer_thread;
