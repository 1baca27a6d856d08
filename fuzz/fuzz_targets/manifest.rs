//! Fuzz target: decoding of the engine's manifest.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_store::fuzzing::manifest_file(bytes));
