//! Fuzz target: CustomResourceDefinitions, and objects of their kinds.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_api::fuzzing::run("structural", bytes));
