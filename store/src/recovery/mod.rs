//! Opening a store: `recover` rebuilds its state from manifest, engine and log after any crash, and starts it.
//! `rebuild` makes the index from the engine's records.
//!
//! Promise: every step can be repeated if a crash interrupts it, and nothing that was acknowledged is missing; what
//! cannot be established is an error, never a guess. Never here: work on a closed directory (`maintenance`), and repair
//! of single damaged records (`engine::healing`).

pub(crate) mod rebuild;
pub(crate) mod recover;
