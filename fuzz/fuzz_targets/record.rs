//! Fuzz target: decoding of log records.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_store::fuzzing::log_record(bytes));
