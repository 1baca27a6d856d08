//! Fuzz target: a log that is written, damaged and truncated as the bytes describe replays to a prefix of the
//! written records.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_store::fuzzing::wal_replay(bytes));
