//! Fuzz target: routing of request heads.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_apiserver::fuzzing::run("routing", bytes));
