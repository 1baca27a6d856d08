//! Opening a store: `recover` rebuilds its state from manifest, engine and log after any crash.
//!
//! `manifest` has the files that name the engine's durable state, which checkpoints replace; `rebuild` makes the index
//! from the engine's records. Not here: work on a closed directory (`maintenance`), and repair of single damaged records
//! (`engine::healing`).

pub(crate) mod manifest;
mod rebuild;
pub(crate) mod recover;
