//! Merge patches, against what they say.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_api::fuzzing::run("merge_patch", bytes));
