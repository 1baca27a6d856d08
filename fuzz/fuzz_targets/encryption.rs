//! Fuzz target: encryption configurations and encrypted values.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_apiserver::fuzzing::run("encryption", bytes));
