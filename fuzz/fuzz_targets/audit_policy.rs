//! Fuzz target: parsing of audit policies.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_apiserver::fuzzing::run("audit_policy", bytes));
