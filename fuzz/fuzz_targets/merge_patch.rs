//! Fuzz target: merge patches, checked against their definition.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_api::fuzzing::run("merge_patch", bytes));
