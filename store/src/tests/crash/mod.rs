//! Exhaustive tests of crashes and disk failures: small workloads are stopped before every disk operation, under every
//! policy for unsynced changes, and again at every operation of the recovery. Acknowledged and observed changes survive,
//! no change is partial, and no revision decreases.
//!
//! `workload` has the steps, `machine` the simulated machine and the check, `exhaustive` the enumeration. `lives` has
//! random sequences of crashes, `reopening` failing or full disks during recovery, `damage` damaged bytes, and `engine`
//! engines that break their contract.

mod damage;
mod engine;
mod exhaustive;
mod lives;
mod machine;
mod reopening;
mod workload;
