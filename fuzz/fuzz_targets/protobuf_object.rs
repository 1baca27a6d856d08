//! Objects of every kind, there and back.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_api::fuzzing::run("protobuf_object", bytes));
