//! Evaluation of transactions: `check` validates them, `compare` and `execute` evaluate them on staged state, and
//! `lease_table` has the leases with their attached keys.
//!
//! Promise: a transaction is a function of the index, the staged changes, the leases and the old versions that the
//! caller's `fetch` reads; a transaction that fails has changed nothing. Never here: threads, clocks, files, and
//! published state (the caller lends the index).

pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod execute;
pub(crate) mod lease_table;
