//! Fuzz target: tokens of service accounts and OpenID Connect issuers.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_apiserver::fuzzing::run("token", bytes));
