//! Fuzz target: sequences of applies and updates by several managers, checked against the rules of field
//! ownership.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_api::fuzzing::run("apply", bytes));
