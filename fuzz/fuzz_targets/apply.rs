//! Stories of managers that apply and update, against the laws of ownership.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_api::fuzzing::run("apply", bytes));
