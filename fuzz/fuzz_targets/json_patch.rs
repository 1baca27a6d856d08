//! Fuzz target: JSON patches, checked against properties of diffs and test operations.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_api::fuzzing::run("json_patch", bytes));
