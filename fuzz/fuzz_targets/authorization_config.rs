//! Fuzz target: authorization configurations and their conditions.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_apiserver::fuzzing::run("authorization_config", bytes));
