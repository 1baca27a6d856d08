//! Fuzz target: parsing of selectors.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_api::fuzzing::run("selector", bytes));
