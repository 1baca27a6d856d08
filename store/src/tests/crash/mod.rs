//! Crashes and failures of the disk, exhaustively: small workloads, stopped before every single operation on the disk,
//! under every policy for what was not synced; then once more at every operation of the recovery. What was answered or
//! observed is there, nothing is half there, nothing goes back.
//!
//! `workload` is what is done, `machine` what it is done on and the judge, `exhaustive` the enumeration; `lives` are random
//! histories of several crashes, `reopening` is about disks that fail or are full during recovery, `damage` about bytes that rot,
//! `engine` about engines that break their word.

mod damage;
mod engine;
mod exhaustive;
mod lives;
mod machine;
mod reopening;
mod workload;
