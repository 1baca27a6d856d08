//! Fuzz target: parsing of YAML.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_apiserver::fuzzing::run("yaml", bytes));
