//! Work off the commit path: feeding the engine, physical compaction, checkpoints, defragmentation, scrubbing.
//!
//! `worker` does it in bounded steps, `supervisor` is the loop around the worker, which retries and raises alarms.
//! `compact` removes what no read can reach, and `pace` decides when a checkpoint is due.
//!
//! Promise: a step is bounded and can be repeated after an error or a crash; the engine gets only commits that the log
//! has synced. Never here: threads (`runtime::threads` runs the supervisor), and commits (a change of alarms is
//! requested from the writer like every other change).

pub(crate) mod compact;
mod pace;
pub(crate) mod supervisor;
pub(crate) mod worker;
