//! Bytes that claim to be an object.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_api::fuzzing::run("protobuf", bytes));
