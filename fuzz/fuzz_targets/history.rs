//! Fuzz target: decoding of an engine file and of the engine's file list.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_store::fuzzing::history_entries(bytes));
