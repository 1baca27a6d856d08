//! Fuzz target: KWOK's stages, compiled and played.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_kwok::fuzzing::stages(bytes));
