//! Fuzz target: protobuf round trips of objects of every kind.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_api::fuzzing::run("protobuf_object", bytes));
