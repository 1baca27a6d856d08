//! Fuzz target: ABAC policy files.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_apiserver::fuzzing::run("abac", bytes));
