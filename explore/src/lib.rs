//! A search for ordering, staleness and crash bugs of unchanged operators: plans of faults that a real cluster could show, runs on forks of
//! one prepared cluster, oracles that compare each run with references, and shrunk failures that can be replayed.
//!
//! A [`scenario::Scenario`] says what is prepared and done. `pattern` makes plans of a reference's [`record::RunRecord`], `prune` and
//! `order` choose among them, `oracle` judges the record of each run with `normalise`, `shrink` makes a failing plan smaller, `replay`
//! writes it down, and `report` presents it. All of that is pure: no async, no clock, no I/O.
//!
//! `sources` reads the files of a scenario, `run` takes runs on forks of a [`run::PreparedLab`], and [`search::Search`] is the search: its
//! references, runs in parallel, confirmations, and files of findings. `run` alone talks to the lab.

pub mod explain;
pub mod limits;
pub mod normalise;
pub mod oracle;
pub mod oracle_id;
pub mod order;
pub mod pattern;
pub mod pattern_id;
pub mod plan;
pub mod program;
pub mod progress;
pub mod prune;
pub mod random;
pub mod record;
pub mod replay;
pub mod report;
pub mod run;
pub mod scenario;
pub mod search;
pub mod secrets;
pub mod shrink;
pub mod sources;
pub mod traced;
pub mod yaml;
