//! Fuzz target: headers with user names and passwords, and files of users.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_apiserver::fuzzing::run("basic_auth", bytes));
