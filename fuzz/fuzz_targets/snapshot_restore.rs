//! Fuzz target: restoring of snapshot files.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_store::fuzzing::snapshot_restore(bytes));
