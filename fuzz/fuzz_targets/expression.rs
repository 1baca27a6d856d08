//! Fuzz target: CEL expressions, alone and as rules of schemas.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_api::fuzzing::run("expression", bytes));
