//! Fuzz target: decoding of objects in protobuf.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_api::fuzzing::run("protobuf", bytes));
