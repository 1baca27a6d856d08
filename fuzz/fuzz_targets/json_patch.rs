//! JSON patches, against the laws of differences and tests.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_api::fuzzing::run("json_patch", bytes));
