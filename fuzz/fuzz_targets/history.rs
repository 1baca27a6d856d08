//! Bytes as a file of the engine and as the list of its files.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_store::fuzzing::history_entries(bytes));
