//! Strategic merge patches, against the slow second implementation.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_api::fuzzing::run("strategic_patch", bytes));
