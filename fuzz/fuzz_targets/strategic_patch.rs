//! Fuzz target: strategic merge patches, compared with a second, slow implementation.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_api::fuzzing::run("strategic_patch", bytes));
