//! Fuzz target: JSON paths of printer columns, evaluated on objects.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_api::fuzzing::run("json_path", bytes));
