//! Bytes as a snapshot that is to be restored.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_store::maintenance::fuzz_restore(bytes));
