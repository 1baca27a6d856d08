//! Fuzz target: authentication configurations and their expressions.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_apiserver::fuzzing::run("authentication_config", bytes));
