//! Fuzz target: transactions described by the bytes, on the store and on the model.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_store::fuzzing::transactions(bytes));
