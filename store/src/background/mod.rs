//! Work off the commit path: feeding the engine, physical compaction, checkpoints, defragmentation, and freeing memory.
//!
//! `feed` is the queue of published commits to the background worker, `checkpoint` is that worker, and `supervisor` the
//! loop around it, which retries and raises alarms. `pace` decides when a checkpoint or a defragmentation is due, and
//! `waiters` has the callers that wait for either. `tasks` runs the store's tokio tasks, such as `release`, which frees
//! memory after a burst of writes.
//!
//! Not here: the threads themselves (`runtime::threads`), and expiry of leases (`lease::expire`).

pub(crate) mod checkpoint;
pub(crate) mod feed;
mod pace;
pub(crate) mod release;
pub(crate) mod supervisor;
pub(crate) mod tasks;
pub(crate) mod waiters;
